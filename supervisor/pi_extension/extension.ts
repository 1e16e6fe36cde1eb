/** What the extension does for Pi. Whatever memory means is decided by the service; here events are passed on. */

import { resolve } from "node:path";
import {
  clampThinkingLevel,
  getCurrentSystemMessage,
  getCurrentSystemPrompt,
  getCurrentTools,
  type Tool,
  type ToolCall,
  validateToolArguments,
} from "@earendil-works/pi-ai";
import {
  convertToLlm,
  createBashTool,
  createCodemodeExtension,
  createEditTool,
  createFindTool,
  createGrepTool,
  createReadTool,
  createWriteTool,
  detectSupportedImageMimeTypeFromFile,
  type ExtensionAPI,
  type ExtensionContext,
  getAgentDir,
  VERSION,
} from "@earendil-works/pi-coding-agent";
import type { CodemodeTool } from "./codemode.ts";
import { connect } from "./connect.ts";
import type { EarlyStart } from "./early.ts";
import { messageOf } from "./errors.ts";
import { Notices } from "./notices.ts";
import { type Host, MemorySession } from "./session.ts";
import type { DescribedTool, FileOperations, NativeTool } from "./tools.ts";

const SECTION_NAME = "auto_memory";

/** `find`, `grep` and `bash` act by themselves, on paths and commands that the service has judged. */
const FACTORIES: Record<string, (cwd: string, options?: { operations: FileOperations }) => unknown> = {
  read: createReadTool,
  write: createWriteTool,
  edit: createEditTool,
  find: (cwd) => createFindTool(cwd),
  grep: (cwd) => createGrepTool(cwd),
  bash: (cwd) => createBashTool(cwd),
};

const HOST: Omit<Host, "connect"> = {
  version: VERSION,
  // A relative folder is meant from where Pi was started.
  agentDir: resolve(getAgentDir()),
  clampThinkingLevel,
  sectionName: SECTION_NAME,
  project(ctx: ExtensionContext) {
    const messages = convertToLlm(ctx.sessionManager.buildSessionProjection().messages);
    return {
      messages,
      systemText: getCurrentSystemPrompt(messages),
      section: getCurrentSystemMessage(messages)?.sections?.[SECTION_NAME] ?? undefined,
      tools: getCurrentTools(messages).map(({ name, description, parameters }) => ({ name, description, parameters })),
    };
  },
  natives: {
    make: (tool, cwd, operations) => FACTORIES[tool]?.(cwd, { operations }) as NativeTool | undefined,
    describe: (tool) => FACTORIES[tool]?.(process.cwd()) as DescribedTool | undefined,
    validate(tool, name, id, given) {
      const call = { type: "toolCall", id, name, arguments: given } as ToolCall;
      return validateToolArguments(tool as unknown as Tool, call);
    },
    detectImageMimeType: detectSupportedImageMimeTypeFromFile,
  },
  makeCodemode(pi, { mode, inlineBudget }) {
    const made: CodemodeTool[] = [];
    // Its scripts could spend money on models that no configuration of ours names.
    const extension = createCodemodeExtension({ mode, inlineBudget, models: false });
    void extension({ ...pi, registerTool: (tool: CodemodeTool) => void made.push(tool) } as unknown as ExtensionAPI);
    if (!made[0]) throw new Error("Pi's codemode registers no tool");
    return made[0];
  },
};

/** Follows the sessions of `pi` with the service that launch.json in `directory` names. */
export function register(pi: ExtensionAPI, directory: string, early: EarlyStart): void {
  let session: MemorySession | undefined;
  const host: Host = { ...HOST, connect: (handlers, hooks) => connect(directory, handlers, hooks, early) };

  /** Pi reports what a handler throws as an error of the extension, run after run. */
  async function safely<T>(work: (session: MemorySession) => T): Promise<Awaited<T> | undefined> {
    if (!session) return undefined;
    const current = session;
    try {
      return await work(current);
    } catch (error) {
      current.report(error);
      return undefined;
    }
  }

  pi.on("session_start", (event, ctx) => {
    try {
      session = new MemorySession(pi, event, ctx, host);
    } catch (error) {
      new Notices(ctx).show("warning", `Project memory is off for this session: ${messageOf(error)}`);
    }
  });
  pi.on("before_agent_start", (event, ctx) => safely((memory) => memory.beforeAgentStart(event, ctx)));
  pi.on("context_with_system", (_event, ctx) => void safely((memory) => memory.requestSent(ctx)));
  pi.on("message_end", (event) => void safely((memory) => memory.messageEnd(event)));
  pi.on("tool_result", (event, ctx) => safely((memory) => memory.toolResult(event, ctx)));
  pi.on("agent_settled", (event, ctx) => void safely((memory) => memory.agentSettled(event, ctx)));
  pi.on("session_compact", () => void safely((memory) => memory.historyChanged("compact")));
  pi.on("session_tree", () => void safely((memory) => memory.historyChanged("tree")));
  pi.on("session_before_compact", async (event, ctx) => {
    await safely((memory) => memory.beforeCompact(event, ctx));
  });
  pi.on("session_shutdown", async (event) => {
    await safely((memory) => memory.shutdown(event));
    session = undefined;
  });
  pi.registerCommand("memory", {
    description: "Project memory: show its state, or steer it",
    getArgumentCompletions: async (prefix) => (await safely((memory) => memory.complete(prefix))) ?? null,
    handler: async (text, ctx) => {
      await safely((memory) => memory.command(text, ctx));
    },
  });
}
