import assert from "node:assert/strict";
import { beforeEach, mock, test } from "node:test";
import type { ExtensionAPI, ExtensionContext } from "@earendil-works/pi-coding-agent";
import type { Handlers } from "../../../supervisor/pi_extension/peer.ts";
import { type Host, MemorySession } from "../../../supervisor/pi_extension/session.ts";
import type { DescribedTool } from "../../../supervisor/pi_extension/tools.ts";
import type { ParentSnapshot } from "../../../supervisor/pi_extension/types.ts";
import type { Hooks } from "../../../supervisor/pi_extension/supervision.ts";
import { settle } from "./support.ts";

type Frame = [method: string, params: any, wait?: { boundMs: number; signal?: AbortSignal }];
interface Setup {
  mode?: "tui" | "rpc" | "json" | "print";
  stored?: string;
  branch?: { id: string }[];
  answer?: (method: string) => unknown;
}

const MODEL = { provider: "p", id: "m", api: "a", reasoning: false, contextWindow: 1, maxTokens: 1, baseUrl: "secret" };
const INFO = { provider: "p", id: "m", api: "a", reasoning: false, contextWindow: 1, maxTokens: 1 };

function open({ mode = "rpc", stored, branch = [{ id: "a" }, { id: "b" }], answer = () => ({}) }: Setup = {}) {
  const frames: Frame[] = [];
  const shown: string[][] = [];
  const wired: { handlers?: Handlers; hooks?: Hooks } = {};
  const ending = Promise.withResolvers<void>();
  const ui = {
    notify: (text: string, level: string) => shown.push([level, text]),
    setStatus: (key: string, text?: string) => shown.push([key, text ?? "cleared"]),
  };
  const sessionManager = {
    getBranch: () => branch,
    getSessionId: () => "s1",
    getSessionDir: () => "/sessions",
    usesDefaultSessionDir: () => true,
  };
  const ctx = {
    ui,
    mode,
    hasUI: mode === "tui" || mode === "rpc",
    cwd: "/project",
    sessionManager,
    model: MODEL,
    thinkingLevel: "low",
    isProjectTrusted: () => true,
    modelRegistry: { find: () => undefined },
  } as unknown as ExtensionContext;
  const calls: unknown[][] = [];
  const active = ["read", "codemode"];
  const pi = {
    appendEntry: (...args: unknown[]) => calls.push(args),
    sendMessage: (...args: unknown[]) => calls.push(args),
    // What another extension has put in the place of one of Pi's tools is not Pi's own.
    getAllTools: () => [{ name: "read", description: "another", parameters: { other: true }, exposure: "direct" }],
    getActiveTools: () => active,
    getSettings: () => ({ codemode: { mode: "only" } }),
  } as unknown as ExtensionAPI;
  const host: Host = {
    version: "1.6.0",
    agentDir: "/agent",
    clampThinkingLevel: (_model, level) => level,
    sectionName: "auto_memory",
    project: () => ({ messages: [], systemText: "", section: stored, tools: [] }),
    natives: {
      make: () => undefined,
      describe: (name) =>
        ["read", "bash"].includes(name) ? ({ name, description: "d", parameters: {} } as unknown as DescribedTool) : undefined,
      validate: () => undefined,
      detectImageMimeType: async () => null,
    },
    makeCodemode: () => assert.fail("no script is run here"),
    connect(handlers, hooks) {
      Object.assign(wired, { handlers, hooks });
      return {
        toolResultEvents: ["read"],
        request: async (...frame) => {
          frames.push(frame as Frame);
          return answer(frame[0]);
        },
        operation: async (...frame) => answer(frame[0]),
        notify: (...frame) => void frames.push(frame),
        shutdown: () => ending.promise,
      };
    },
  };
  const session = new MemorySession(pi, { type: "session_start", reason: "resume" }, ctx, host);
  return { session, ctx, frames, shown, calls, active, ending, wired: wired as Required<typeof wired> };
}

function startEvent(sections: Record<string, string> = {}) {
  return { type: "before_agent_start", messageType: "user", prompt: "hi", systemPrompt: "", systemPromptOptions: { sections } } as any;
}

function captureStderr(): string[] {
  const lines: string[] = [];
  mock.method(process.stderr, "write", (text: string) => lines.push(text));
  return lines;
}

beforeEach(() => {
  mock.timers.reset();
  mock.restoreAll();
});

test("the handshake says who, where and what", () => {
  const { wired } = open();
  assert.deepEqual(wired.hooks.initialize(true), {
    protocolVersion: 1,
    host: { name: "pi", version: "1.6.0" },
    mode: "rpc",
    agentDir: "/agent",
    cwd: "/project",
    trusted: true,
    session: { id: "s1", directory: "/sessions", usesDefaultDirectory: true, reason: "resume", restarted: true },
    history: { handle: "h1", length: 2 },
    capabilities: { notify: true, status: true },
    model: INFO,
    thinkingLevel: "low",
    tools: ["read", "bash"].map((name) => ({ name, description: "d", parameters: {} })),
    codemode: { active: true, mode: "only", inlineBudget: 3000 },
  });
});

test("the section is set, the recall returned, and the event told in plain values", async () => {
  const section = { name: "auto_memory", text: "rules" };
  const message = { customType: "recall", content: "facts", details: { n: 1 }, display: false };
  const { session, ctx, frames } = open({ answer: () => ({ section, message }) });
  const event = startEvent();
  assert.deepEqual(await session.beforeAgentStart(event, ctx), { message });
  assert.deepEqual(event.systemPromptOptions.sections, { auto_memory: "rules" });
  const context = { history: { handle: "h1", length: 2 }, trusted: true, model: INFO, thinkingLevel: "low" };
  const [method, params] = frames[0]!;
  assert.deepEqual([method, params], ["before_agent_start", { context, messageType: "user", prompt: "hi", withinMs: 2500 }]);
});

test("a run of another extension's message gets the section too", async () => {
  const { session, ctx, frames } = open({ answer: () => ({ section: { name: "auto_memory", text: "rules" } }) });
  const event = { ...startEvent(), messageType: "custom", message: { customType: "x" } };
  assert.equal(await session.beforeAgentStart(event, ctx), undefined);
  assert.equal(event.systemPromptOptions.sections.auto_memory, "rules");
  assert.deepEqual([frames[0]?.[1].messageType, frames[0]?.[1].prompt], ["custom", null]);
});

test("while the service is away the last section stays, and a section taken back goes", async () => {
  const answers: unknown[] = [{ section: { name: "auto_memory", text: "one" } }, "away", { section: null }, "away"];
  const { session, ctx } = open({
    stored: "from the transcript",
    answer: () => {
      const answer = answers.shift();
      if (answer === "away") throw new Error("no service");
      return answer;
    },
  });
  const seen = [];
  for (let run = 0; run < 4; run += 1) {
    const event = startEvent();
    await session.beforeAgentStart(event, ctx);
    seen.push(event.systemPromptOptions.sections.auto_memory);
  }
  assert.deepEqual(seen, ["one", "one", undefined, undefined]);
});

test("a service that never answered leaves the section of the transcript in place", async () => {
  const { session, ctx } = open({
    stored: "from the transcript",
    answer: () => {
      throw new Error("no service");
    },
  });
  const event = startEvent();
  assert.equal(await session.beforeAgentStart(event, ctx), undefined);
  assert.equal(event.systemPromptOptions.sections.auto_memory, "from the transcript");
});

test("an answer that comes after the session's end changes nothing and touches no old object", async () => {
  const gate = Promise.withResolvers<unknown>();
  const { session, ctx, shown, ending } = open({ answer: () => gate.promise });
  const event = startEvent();
  const waits = [
    session.beforeAgentStart(event, ctx),
    session.command("status", ctx),
    session.toolResult({ type: "tool_result", toolName: "read", toolCallId: "1", input: {}, content: [], isError: false, details: undefined }, ctx),
  ];
  const stale = () => {
    throw new Error("This extension ctx is stale");
  };
  for (const key of Object.keys(ctx)) Object.defineProperty(ctx, key, { get: stale });
  const ended = session.shutdown({ reason: "new" });
  ending.resolve();
  await ended;
  gate.resolve({ section: { name: "auto_memory", text: "late" }, message: { customType: "x", content: "y" }, text: "late", append: "late" });
  assert.deepEqual(await Promise.all(waits), [undefined, undefined, undefined]);
  assert.deepEqual([event.systemPromptOptions.sections, shown], [{}, []]);
});

test("user messages are told with their text blocks, other roles are not", () => {
  const { session, frames } = open();
  const content = [{ type: "text", text: "one" }, { type: "image", data: "A", mimeType: "image/png" }, { type: "text", text: "two" }];
  session.messageEnd({ type: "message_end", message: { role: "user", content, timestamp: 1 } } as any);
  session.messageEnd({ type: "message_end", message: { role: "user", content: "plain", timestamp: 1 } } as any);
  session.messageEnd({ type: "message_end", message: { role: "custom", content: "no" } } as any);
  const history = { handle: "h1", length: 2 };
  assert.deepEqual(frames, [
    ["user_message", { text: "one\ntwo", history }],
    ["user_message", { text: "plain", history }],
  ]);
});

test("results of the wanted tools are told without their content, and get what is appended", async () => {
  const { session, ctx, frames } = open({ answer: () => ({ append: "note" }) });
  const image = { type: "image" as const, data: "A", mimeType: "image/png" };
  const event = {
    type: "tool_result" as const,
    toolName: "read",
    toolCallId: "c/1",
    parentToolCallId: "c",
    input: { path: "a" },
    content: [image],
    details: { truncation: { truncated: true } },
    structuredContent: { kept: true },
    isError: false,
  } as any;
  assert.deepEqual(await session.toolResult(event, ctx), {
    content: [image, { type: "text", text: "note" }],
    structuredContent: { kept: true },
  });
  assert.deepEqual(frames[0]?.slice(0, 2), [
    "tool_result",
    { toolName: "read", toolCallId: "c/1", input: { path: "a" }, isError: false, truncated: true, hasImage: true, nested: true },
  ]);
  assert.equal(await session.toolResult({ ...event, toolName: "grep" }, ctx), undefined);
  assert.equal(frames.length, 1);
});

test("a plain result stays as it is when nothing is to be appended", async () => {
  const { session, ctx, frames } = open({ answer: () => ({ append: null }) });
  const event = { type: "tool_result", toolName: "read", toolCallId: "1", input: {}, content: [], details: undefined, isError: true } as any;
  assert.equal(await session.toolResult(event, ctx), undefined);
  const { isError, truncated, hasImage, nested } = frames[0]![1];
  assert.deepEqual({ isError, truncated, hasImage, nested }, { isError: true, truncated: false, hasImage: false, nested: false });
});

test("the end of a run is told and not waited for; a compaction or a move gives a new handle", () => {
  const { session, ctx, frames } = open();
  assert.equal(session.agentSettled({ type: "agent_settled", aborted: true }, ctx), undefined);
  session.historyChanged("compact");
  session.historyChanged("tree");
  const context = { history: { handle: "h1", length: 2 }, trusted: true, model: INFO, thinkingLevel: "low" };
  assert.deepEqual(frames, [
    ["agent_settled", { context, aborted: true }],
    ["history_changed", { reason: "compact", history: { handle: "h2", length: 2 } }],
    ["history_changed", { reason: "tree", history: { handle: "h3", length: 2 } }],
  ]);
});

test("every wait has its bound, and compaction and tools their signals", async () => {
  const { session, ctx, frames } = open({ answer: () => ({ text: "x", items: [] }) });
  const { signal } = new AbortController();
  Object.assign(ctx, { signal });
  await session.beforeAgentStart(startEvent(), ctx);
  await session.toolResult({ type: "tool_result", toolName: "read", toolCallId: "1", input: {}, content: [], details: undefined, isError: false }, ctx);
  await session.beforeCompact({ reason: "manual", signal } as any, ctx);
  assert.equal(await session.complete("st"), null);
  await session.command("status", ctx);
  await session.command("dream", { ...ctx, mode: "json" } as ExtensionContext);
  const waits = frames.map(([method, params, wait]) => [method, params.wait, wait?.boundMs, wait?.signal === signal]);
  assert.deepEqual(waits, [
    ["before_agent_start", undefined, 2_500, false],
    ["tool_result", undefined, 1_000, true],
    ["before_compact", undefined, 65_000, true],
    ["complete", undefined, 1_000, false],
    ["command", false, 10_000, false],
    ["command", true, 70_000, false],
  ]);
});

test("a capture says how codemode is set now", () => {
  const { wired, active } = open();
  const capture = () => wired.handlers.requests["parent/capture"]!({}, new AbortController().signal) as ParentSnapshot;
  assert.deepEqual(capture().codemode, { active: true, mode: "only", inlineBudget: 3000 });
  active.pop();
  assert.deepEqual(capture().codemode, { active: false, mode: "only", inlineBudget: 3000 });
});

test("a command's answer is a notice where Pi shows them, and a line of standard error elsewhere", async () => {
  const lines = captureStderr();
  const { session, ctx, shown, frames } = open({ answer: () => ({ text: "all is well", level: "info" }) });
  await session.command(" status  --all", ctx);
  const quiet = open({ mode: "print", answer: () => ({ text: "all is well" }) });
  await quiet.session.command("status", quiet.ctx);
  assert.deepEqual([shown, quiet.shown, lines], [[["info", "all is well"]], [], ["all is well\n"]]);
  assert.equal(frames[0]?.[1].arguments, " status  --all");
});

test("a command without a service says why", async () => {
  const { session, ctx, shown } = open({
    answer: () => {
      throw new Error("the service ended with exit code 3");
    },
  });
  await session.command("status", ctx);
  assert.deepEqual(shown, [["warning", "Project memory cannot do this: the service ended with exit code 3"]]);
});

test("completions come from the service", async () => {
  const items = [{ value: "status", label: "status", description: "d" }];
  const { session } = open({ answer: () => ({ items }) });
  assert.deepEqual(await session.complete("st"), items);
});

const WAITING = "Project memory is finishing its work (extraction or dream, a minute at most)";

test("a shutdown says that it waits only when it does, where it can be seen, and takes it back", async () => {
  for (const [mode, reason, expected] of [
    ["rpc", "new", [["project-memory", `${WAITING}…`], ["project-memory", "cleared"]]],
    ["tui", "quit", [`${WAITING}; Ctrl+C skips the wait.\n`]],
    ["print", "quit", [`${WAITING}; Ctrl+C skips the wait.\n`]],
    ["json", "fork", [`${WAITING}; Ctrl+C skips the wait.\n`]],
  ] as const) {
    mock.timers.enable({ apis: ["setTimeout"] });
    const lines = captureStderr();
    const { session, shown, ending } = open({ mode });
    const ended = session.shutdown({ reason });
    mock.timers.tick(999);
    assert.deepEqual([...shown, ...lines], []);
    mock.timers.tick(1);
    ending.resolve();
    await ended;
    assert.deepEqual([...shown, ...lines], expected, `${mode} ${reason}`);
    mock.timers.reset();
    mock.restoreAll();
  }
});

test("a quick shutdown says nothing, then or later", async () => {
  mock.timers.enable({ apis: ["setTimeout"] });
  const lines = captureStderr();
  const { session, shown, ending } = open({ mode: "print" });
  const ended = session.shutdown({ reason: "quit" });
  ending.resolve();
  await ended;
  mock.timers.tick(10_000);
  assert.deepEqual([shown, lines], [[], []]);
});

test("the service's requests reach Pi: entries, hidden messages without an extra turn, notices, status", async () => {
  const { calls, shown, wired } = open();
  const { requests, notifications } = wired.handlers;
  const { signal } = new AbortController();
  requests["entry/append"]?.({ customType: "c", data: { n: 1 } }, signal);
  requests["message/send"]?.({ customType: "c", content: "late", details: null }, signal);
  notifications["ui/notify"]?.({ level: "error", text: "t" });
  notifications["ui/status"]?.({ text: "busy" });
  notifications["ui/status"]?.({ text: null });
  const history = requests["history/read"]?.({ handle: "h1", start: 1, stop: 2 }, signal);
  const resolved = requests["model/resolve"]?.({ provider: "x", modelId: "y", thinkingLevel: "off" }, signal);
  await settle();
  assert.deepEqual(calls, [
    ["c", { n: 1 }],
    [{ customType: "c", content: "late", display: false }, { deliverAs: "steer", triggerTurn: false }],
  ]);
  assert.deepEqual(shown, [["error", "t"], ["project-memory", "busy"], ["project-memory", "cleared"]]);
  assert.deepEqual(history, { entries: [{ id: "b" }] });
  assert.deepEqual(resolved, { status: "not_found", model: null, thinkingLevel: "off" });
});

test("a warning takes the status line with it, and an error of our own is told once", () => {
  const { session, shown, wired } = open();
  wired.handlers.notifications["ui/status"]?.({ text: "busy" });
  wired.hooks.warn("gone");
  session.report(new Error("odd"));
  session.report(new Error("odd"));
  assert.deepEqual(shown.slice(1), [
    ["project-memory", "cleared"],
    ["warning", "gone"],
    ["warning", "Project memory: the extension met an error: odd"],
  ]);
});

test("a service that is still starting does not cost the prompt its section", async () => {
  const { session, ctx } = open({ stored: "the stored one", answer: async () => ({ section: null, message: null, pending: true }) });
  const event = startEvent();
  await session.beforeAgentStart(event, ctx);
  assert.deepEqual(event.systemPromptOptions.sections, { auto_memory: "the stored one" });
});
