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
import { History } from "./history.ts";
import type { Models } from "./models.ts";
import { Notices } from "./notices.ts";
import type { Handlers } from "./peer.ts";
import { handlersFor, toCustomMessage } from "./requests.ts";
import { type Installation, initialize, runContext, textOf, toolResult } from "./snapshots.ts";
import type { Hooks, Service } from "./supervision.ts";
import type { AgentStartAnswer, BeforeAgentStart, CommandAnswer, Completion, PromptSection } from "./types.ts";

/** How long Pi waits for each answer, in milliseconds. */
const BOUND_MS = {
  before_agent_start: 2_500,
  tool_result: 1_000,
  complete: 1_000,
  before_compact: 65_000,
  command: 10_000,
  waitingCommand: 70_000,
};
const PATIENCE_MS = 1_000;
const WAITING = "Project memory is finishing its work";

/** What a session is given: Pi's functions, and a way to a service. */
export interface Host extends Installation {
  clampThinkingLevel: Models["clampThinkingLevel"];
  /** The section of the system prompt that the transcript holds, for a service that cannot say it. */
  storedSection(ctx: ExtensionContext): PromptSection | undefined;
  connect(handlers: Handlers, hooks: Hooks): Service;
}

export class MemorySession {
  readonly #notices: Notices;
  readonly #history: History;
  readonly #service: Service;
  readonly #reported = new Set<string>();
  #section: PromptSection | undefined;
  #ended = false;

  constructor(pi: ExtensionAPI, event: SessionStartEvent, ctx: ExtensionContext, host: Host) {
    this.#notices = new Notices(ctx);
    this.#history = new History(() => ctx.sessionManager.getBranch());
    this.#section = host.storedSection(ctx);
    this.#service = this.#connect(pi, event, ctx, host);
  }

  async beforeAgentStart(
    event: BeforeAgentStartEvent,
    ctx: ExtensionContext,
  ): Promise<BeforeAgentStartEventResult | undefined> {
    const { messageType } = event;
    const prompt = messageType === "user" ? event.prompt : null;
    const params: BeforeAgentStart = { context: runContext(ctx, this.#history), messageType, prompt };
    const answer = await this.#ask<AgentStartAnswer>("before_agent_start", params);
    if (this.#ended) return undefined;
    if (answer) this.#section = answer.section ?? undefined;
    if (this.#section) event.systemPromptOptions.sections[this.#section.name] = this.#section.text;
    return answer?.message ? { message: toCustomMessage(answer.message) } : undefined;
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
    return host.connect(handlersFor({ pi, models, history: this.#history, notices: this.#notices }), {
      initialize: (restarted) => initialize(pi, ctx, this.#history, host, { reason, restarted }),
      warn: (text) => this.#warn(text),
    });
  }

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
    method: Exclude<keyof typeof BOUND_MS, "waitingCommand">,
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
