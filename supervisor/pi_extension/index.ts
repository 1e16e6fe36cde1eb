/** Registers the extension with Pi. Whatever memory means is decided by the service; here events are passed on. */

import { fileURLToPath } from "node:url";
import { clampThinkingLevel, getCurrentSystemMessage } from "@earendil-works/pi-ai";
import {
  convertToLlm,
  type ExtensionAPI,
  type ExtensionContext,
  getAgentDir,
  VERSION,
} from "@earendil-works/pi-coding-agent";
import { connect } from "./connect.ts";
import { messageOf } from "./errors.ts";
import { Notices } from "./notices.ts";
import { type Host, MemorySession } from "./session.ts";
import { sectionText } from "./snapshots.ts";

const SECTION_NAME = "auto_memory";
const DIRECTORY = fileURLToPath(new URL(".", import.meta.url));

const HOST: Host = {
  version: VERSION,
  agentDir: getAgentDir(),
  clampThinkingLevel,
  storedSection(ctx: ExtensionContext) {
    const messages = convertToLlm(ctx.sessionManager.buildSessionProjection().messages);
    const rendered = getCurrentSystemMessage(messages)?.sections?.[SECTION_NAME];
    return rendered ? { name: SECTION_NAME, text: sectionText(SECTION_NAME, rendered) } : undefined;
  },
  connect: (handlers, hooks) => connect(DIRECTORY, handlers, hooks),
};

export default function projectMemory(pi: ExtensionAPI): void {
  let session: MemorySession | undefined;

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
      session = new MemorySession(pi, event, ctx, HOST);
    } catch (error) {
      new Notices(ctx).show("warning", `Project memory is off for this session: ${messageOf(error)}`);
    }
  });
  pi.on("before_agent_start", (event, ctx) => safely((memory) => memory.beforeAgentStart(event, ctx)));
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
