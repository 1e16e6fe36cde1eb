/** Plain values copied out of Pi's objects, which throw once their session has been replaced. */

import type { Api, Model } from "@earendil-works/pi-ai";
import type { ExtensionAPI, ExtensionContext, ToolResultEvent } from "@earendil-works/pi-coding-agent";
import type { History } from "./history.ts";
import type { NativeTools } from "./tools.ts";
import {
  type CodemodeSettings,
  type Initialize,
  type JsonObject,
  type ModelInfo,
  PROTOCOL_VERSION,
  type RunContext,
  type StartReason,
  type ToolResult,
} from "./types.ts";

const NATIVE_TOOLS = ["read", "find", "grep", "write", "edit", "bash"];
const DEFAULT_INLINE_BUDGET = 3_000;

export interface Installation {
  version: string;
  agentDir: string;
  natives: Pick<NativeTools, "describe">;
}

export function modelInfo(model: Model<Api>): ModelInfo {
  const { provider, id, api, reasoning, contextWindow, maxTokens } = model;
  return { provider, id, api, reasoning, contextWindow, maxTokens };
}

export function runContext(ctx: ExtensionContext, history: History): RunContext {
  return {
    history: history.head(),
    trusted: ctx.isProjectTrusted(),
    model: ctx.model ? modelInfo(ctx.model) : null,
    thinkingLevel: ctx.thinkingLevel ?? null,
  };
}

export interface SessionStart {
  reason: StartReason;
  restarted: boolean;
}

export function initialize(
  pi: ExtensionAPI,
  ctx: ExtensionContext,
  history: History,
  installation: Installation,
  { reason, restarted }: SessionStart,
): Initialize {
  return {
    ...runContext(ctx, history),
    protocolVersion: PROTOCOL_VERSION,
    host: { name: "pi", version: installation.version },
    mode: ctx.mode,
    agentDir: installation.agentDir,
    cwd: ctx.cwd,
    session: { ...sessionIdentity(ctx), reason, restarted },
    capabilities: { notify: true, status: ctx.hasUI },
    tools: nativeTools(installation.natives),
    codemode: codemodeSettings(pi),
  };
}

function sessionIdentity(ctx: ExtensionContext) {
  // Present at run time, missing from the type that extensions are given.
  const manager = ctx.sessionManager as ExtensionContext["sessionManager"] & { usesDefaultSessionDir?(): boolean };
  return {
    id: manager.getSessionId(),
    directory: manager.getSessionDir(),
    usesDefaultDirectory: manager.usesDefaultSessionDir?.() ?? false,
  };
}

/** Pi's own tools, not those of the same names that another extension may have put in their place. */
function nativeTools(natives: Pick<NativeTools, "describe">): JsonObject[] {
  return NATIVE_TOOLS.flatMap((name) => {
    const tool = natives.describe(name);
    return tool ? [{ name, description: tool.description, parameters: tool.parameters }] : [];
  });
}

/** Pi takes the settings as they are written, and its defaults for what makes no sense. */
export function codemodeSettings(pi: Pick<ExtensionAPI, "getActiveTools" | "getSettings">): CodemodeSettings {
  const { mode, inlineBudget } = pi.getSettings().codemode ?? {};
  const isBudget = typeof inlineBudget === "number" && Number.isFinite(inlineBudget) && inlineBudget >= 0;
  return {
    active: pi.getActiveTools().includes("codemode"),
    mode: mode === "only" ? "only" : "on",
    inlineBudget: isBudget ? Math.floor(inlineBudget) : DEFAULT_INLINE_BUDGET,
  };
}

export function toolResult(event: ToolResultEvent): ToolResult {
  const details = event.details as { truncation?: { truncated?: boolean } } | null | undefined;
  return {
    toolName: event.toolName,
    toolCallId: event.toolCallId,
    input: event.input,
    isError: event.isError,
    truncated: details?.truncation?.truncated === true,
    hasImage: event.content.some((block) => block.type === "image"),
    nested: event.parentToolCallId !== undefined,
  };
}

type Content = string | readonly { type: string; text?: string }[];

export function textOf(content: Content): string {
  if (typeof content === "string") return content;
  return content.flatMap((block) => (block.type === "text" ? [block.text ?? ""] : [])).join("\n");
}

/** Takes off the tag that Pi puts around a section when it renders one. */
export function sectionText(name: string, rendered: string): string {
  const [head, tail] = [`<${name}>\n`, `\n</${name}>`];
  const isWrapped = rendered.startsWith(head) && rendered.endsWith(tail);
  return isWrapped ? rendered.slice(head.length, -tail.length) : rendered;
}
