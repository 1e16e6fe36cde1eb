/** One Pi session as the service sees it: Pi's events go out, the service's answers come back. */

import type {
  AgentSettledEvent,
  BeforeAgentStartEvent,
  BeforeAgentStartEventResult,
  ExtensionAPI,
  ExtensionContext,
  MessageEndEvent,
  SessionBeforeCompactEvent,
  SessionShutdownEvent,
  SessionStartEvent,
  ToolResultEvent,
  ToolResultEventResult,
} from "@earendil-works/pi-coding-agent";
import { messageOf } from "./errors.ts";
import type { Codemode } from "./codemode.ts";
import { History } from "./history.ts";
import type { Models } from "./models.ts";
import { Notices } from "./notices.ts";
import type { Handlers } from "./peer.ts";
import { ParentRequests, type Projection } from "./parent.ts";
import { handlersFor, toCustomMessage } from "./requests.ts";
import {
  codemodeSettings,
  type Installation,
  initialize,
  modelInfo,
  runContext,
  sectionText,
  textOf,
  toolResult,
} from "./snapshots.ts";
import type { Hooks, Service } from "./supervision.ts";
import type { NativeTools } from "./tools.ts";
import type {
  AgentStartAnswer,
  BeforeAgentStart,
  CommandAnswer,
  Completion,
  JsonObject,
  OperationResult,
  PromptSection,
  ScriptCall,
  ToolOutcome,
} from "./types.ts";

/** How long Pi waits for each answer, in milliseconds. */
const BOUND_MS = {
  before_agent_start: 2_500,
  tool_operation: 30_000,
  tool_call: 630_000,
  tool_result: 1_000,
  complete: 1_000,
  before_compact: 65_000,
  command: 10_000,
  waitingCommand: 70_000,
};
const PATIENCE_MS = 1_000;
const WAITING = "Project memory is finishing its work (extraction or dream, a minute at most)";

/** What a session is given: Pi's functions, and a way to a service. */
export interface Host extends Installation {
  clampThinkingLevel: Models["clampThinkingLevel"];
  /** The name under which Pi renders the memory section. */
  sectionName: string;
  /** What Pi would send next, read from the session as it stands. */
  project(ctx: ExtensionContext): Projection;
  natives: NativeTools;
  makeCodemode: Codemode["make"];
  connect(handlers: Handlers, hooks: Hooks): Service;
}

export class MemorySession {
  readonly #notices: Notices;
  readonly #history: History;
  readonly #service: Service;
  readonly #parents: ParentRequests;
  readonly #reported = new Set<string>();
  #section: PromptSection | undefined;
  #ended = false;

  constructor(pi: ExtensionAPI, event: SessionStartEvent, ctx: ExtensionContext, host: Host) {
    this.#notices = new Notices(ctx);
    this.#history = new History(() => ctx.sessionManager.getBranch());
    const { sectionName } = host;
    const standing = () => ({
      imagesBlocked: pi.getSettings().images?.blockImages === true,
      codemode: codemodeSettings(pi),
    });
    this.#parents = new ParentRequests(() => host.project(ctx), standing, sectionName);
    const stored = host.project(ctx).section;
    // A service that cannot say the section must not cost the prompt the one it has.
    this.#section = stored ? { name: sectionName, text: sectionText(sectionName, stored) } : undefined;
    this.#service = this.#connect(pi, event, ctx, host);
  }

  async beforeAgentStart(
    event: BeforeAgentStartEvent,
    ctx: ExtensionContext,
  ): Promise<BeforeAgentStartEventResult | undefined> {
    const { messageType } = event;
    const prompt = messageType === "user" ? event.prompt : null;
    const context = runContext(ctx, this.#history);
    const params: BeforeAgentStart = { context, messageType, prompt, withinMs: BOUND_MS.before_agent_start };
    const answer = await this.#ask<AgentStartAnswer>("before_agent_start", params);
    if (this.#ended) return undefined;
    if (answer && !answer.pending) this.#section = answer.section ?? undefined;
    const { sections, hiddenTools, forceSystemPrompt } = event.systemPromptOptions;
    if (this.#section) sections[this.#section.name] = this.#section.text;
    this.#parents.runBegins({ hiddenTools: hiddenTools ?? [], forcedPrompt: forceSystemPrompt !== undefined });
    return answer?.message ? { message: toCustomMessage(answer.message) } : undefined;
  }

  requestSent(ctx: ExtensionContext): void {
    this.#parents.requestSent(ctx.model ? modelInfo(ctx.model) : null);
  }

  messageEnd({ message }: MessageEndEvent): void {
    if (message.role !== "user") return;
    this.#service.notify("user_message", { text: textOf(message.content), history: this.#history.head() });
  }

  async toolResult(event: ToolResultEvent, ctx: ExtensionContext): Promise<ToolResultEventResult | undefined> {
    if (!this.#service.toolResultEvents.includes(event.toolName)) return undefined;
    const answer = await this.#ask<{ append?: string | null }>("tool_result", toolResult(event), ctx.signal);
    if (this.#ended || answer?.append == null) return undefined;
    const content = [...event.content, { type: "text" as const, text: answer.append }];
    const { structuredContent } = event;
    return structuredContent === undefined ? { content } : { content, structuredContent };
  }

  agentSettled({ aborted }: AgentSettledEvent, ctx: ExtensionContext): void {
    this.#service.notify("agent_settled", { context: runContext(ctx, this.#history), aborted });
  }

  historyChanged(reason: "compact" | "tree"): void {
    this.#service.notify("history_changed", { reason, history: this.#history.renew() });
  }

  async beforeCompact({ reason, signal }: SessionBeforeCompactEvent, ctx: ExtensionContext): Promise<void> {
    await this.#ask("before_compact", { context: runContext(ctx, this.#history), reason }, signal);
  }

  async command(text: string, ctx: ExtensionContext): Promise<void> {
    const wait = ctx.mode === "print" || ctx.mode === "json";
    const params = { arguments: text, context: runContext(ctx, this.#history), wait };
    const boundMs = wait ? BOUND_MS.waitingCommand : BOUND_MS.command;
    try {
      const answer = (await this.#service.request("command", params, { boundMs })) as CommandAnswer;
      if (!this.#ended) this.#notices.show(answer.level ?? "info", answer.text);
    } catch (error) {
      if (!this.#ended) this.#notices.show("warning", `Project memory cannot do this: ${messageOf(error)}`);
    }
  }

  async complete(prefix: string): Promise<Completion[] | null> {
    const answer = await this.#ask<{ items: Completion[] }>("complete", { prefix });
    return answer?.items.length ? answer.items : null;
  }

  async shutdown({ reason }: Pick<SessionShutdownEvent, "reason">): Promise<void> {
    this.#ended = true;
    const patience = setTimeout(() => this.#showWaiting(reason === "quit"), PATIENCE_MS);
    try {
      await this.#service.shutdown(reason);
    } finally {
      clearTimeout(patience);
      this.#notices.status(null);
    }
  }

  /** An error of our own is told once and goes no further. */
  report(error: unknown): void {
    const text = messageOf(error);
    if (this.#ended || this.#reported.has(text)) return;
    this.#reported.add(text);
    this.#notices.show("warning", `Project memory: the extension met an error: ${text}`);
  }

  #connect(pi: ExtensionAPI, { reason }: SessionStartEvent, ctx: ExtensionContext, host: Host): Service {
    const models: Models = {
      active: () => ctx.model,
      registry: () => ctx.modelRegistry,
      clampThinkingLevel: host.clampThinkingLevel,
    };
    const offer = { pi, models, history: this.#history, parents: this.#parents, notices: this.#notices };
    const codemode = { make: host.makeCodemode, registered: () => pi.getAllTools() };
    const tools = { natives: host.natives, codemode, ask: this.#askOperation, askCall: this.#askCall };
    return host.connect(handlersFor({ ...offer, ...tools }), {
      initialize: (restarted) => initialize(pi, ctx, this.#history, host, { reason, restarted }),
      warn: (text) => this.#warn(text),
    });
  }

  #askOperation = async (params: JsonObject): Promise<OperationResult> => {
    const wait = { boundMs: BOUND_MS.tool_operation };
    return (await this.#service.operation("tool_operation", params, wait)) as OperationResult;
  };

  #askCall = async (call: ScriptCall, signal: AbortSignal | undefined): Promise<ToolOutcome> => {
    const wait = { boundMs: BOUND_MS.tool_call, signal };
    return (await this.#service.operation("tool_call", call, wait)) as ToolOutcome;
  };

  #warn(text: string): void {
    // What the service last showed of itself holds no longer.
    this.#notices.status(null);
    this.#notices.show("warning", text);
  }

  #showWaiting(quitting: boolean): void {
    if (quitting || !this.#notices.visible) this.#notices.print(`${WAITING}; Ctrl+C skips the wait.`);
    else this.#notices.status(`${WAITING}…`);
  }

  /** Resolves with undefined when the service does not answer in time, or at all. */
  async #ask<T>(
    method: Exclude<keyof typeof BOUND_MS, "waitingCommand" | "tool_operation" | "tool_call">,
    params: object,
    signal?: AbortSignal,
  ): Promise<T | undefined> {
    try {
      return (await this.#service.request(method, params, { boundMs: BOUND_MS[method], signal })) as T;
    } catch {
      return undefined;
    }
  }
}
