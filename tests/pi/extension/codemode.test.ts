import assert from "node:assert/strict";
import { test } from "node:test";
import {
  type Codemode,
  type CodemodePi,
  type CodemodeTool,
  codemodeLoadout,
  runScript,
} from "../../../supervisor/pi_extension/codemode.ts";
import { codemodeSettings } from "../../../supervisor/pi_extension/snapshots.ts";
import type { NativeTools } from "../../../supervisor/pi_extension/tools.ts";
import type { Script, ScriptCall, ToolOutcome } from "../../../supervisor/pi_extension/types.ts";

const WANTED = { mode: "only" as const, inlineBudget: 50, tools: ["read", "write"] };
const SCRIPT: Script = { ...WANTED, callId: "c#1", arguments: { code: "…" }, stored: [] };
const DONE: ToolOutcome = { content: [{ type: "text", text: "done" }], details: null, isError: false };
const running = new AbortController().signal;

type Execute = (pi: CodemodePi, ...args: Parameters<CodemodeTool["execute"]>) => unknown;

/** Pi's codemode as a test has it; `made` are the settings it was made with. */
function codemode(parts: { execute?: Execute; prepareLoadout?: CodemodeTool["prepareLoadout"] | undefined } = {}) {
  const made: unknown[] = [];
  const registered = ["read", "deploy"].map((name) => ({ name, promptGuidelines: [`about ${name}`] }));
  const fake: Codemode = {
    make(pi, wanted) {
      made.push(wanted);
      const execute = async (...args: Parameters<CodemodeTool["execute"]>) => (parts.execute?.(pi, ...args) ?? DONE) as never;
      const { prepareLoadout } = parts;
      const parameters = { type: "object" } as never;
      const grammar = { type: "grammar" } as never;
      const tool = { name: "codemode", description: "bare", parameters, constrainedSampling: grammar, execute };
      return { ...tool, ...(prepareLoadout && { prepareLoadout }) };
    },
    registered: () => registered as never,
  };
  return { fake, made };
}

const natives = {
  describe: (name: string) => (name === "deploy" ? undefined : { name, description: `${name} as Pi has it` }),
  validate: (_tool: object, _name: string, _id: string, given: unknown) => given,
} as unknown as NativeTools;

const noCalls = () => assert.fail("no call was to come");

test("the loadout is Pi's own, made of the run's tools alone", () => {
  const seen: unknown[] = [];
  const { fake, made } = codemode({
    prepareLoadout(loadout) {
      const names = (tools: readonly { name: string }[]) => tools.map(({ name }) => name);
      seen.push(names(loadout.declared), names(loadout.callable), names(loadout.registered));
      seen.push(["read", "codemode"].map(loadout.getExposure), ["read", "write"].map(loadout.getPromptGuidelines));
      return { descriptions: { codemode: "Run scripts", read: "read, also from scripts" }, hiddenDeclarations: ["read"] };
    },
  });
  assert.deepEqual(codemodeLoadout(fake, natives, WANTED), {
    declaration: { name: "codemode", description: "Run scripts", parameters: { type: "object" }, constrainedSampling: { type: "grammar" } },
    descriptions: { codemode: "Run scripts", read: "read, also from scripts" },
    hiddenTools: ["read"],
  });
  const all = ["read", "write", "codemode"];
  assert.deepEqual(seen, [all, ["read", "write"], all, ["direct", "model-only"], [["about read"], []]]);
  assert.deepEqual(made, [{ mode: "only", inlineBudget: 50 }]);
});

test("a codemode without a loadout of its own changes nothing", () => {
  const loadout = codemodeLoadout(codemode({ prepareLoadout: () => undefined }).fake, natives, WANTED);
  assert.deepEqual([loadout.declaration.description, loadout.descriptions, loadout.hiddenTools], ["bare", {}, []]);
  assert.equal(codemodeLoadout(codemode().fake, natives, WANTED).declaration.description, "bare");
});

test("a tool that Pi has not is named", async () => {
  const tools = ["read", "deploy"];
  assert.throws(() => codemodeLoadout(codemode().fake, natives, { ...WANTED, tools }), { code: -32602, message: /deploy/ });
  const outcome = await runScript(codemode().fake, natives, { ...SCRIPT, tools }, noCalls, running);
  assert.deepEqual([outcome.isError, /deploy/.test(String(outcome.content[0]!.text))], [true, true]);
});

test("each call of a script is asked for under an id of its own, and its answer handed on", async () => {
  const asked: ScriptCall[] = [];
  const results: unknown[] = [];
  const signal = new AbortController().signal;
  const { fake } = codemode({
    async execute(_pi, _id, _params, _signal, _update, ctx) {
      assert.deepEqual(ctx.tools.map(({ name }) => name), ["read", "write"]);
      results.push(await ctx.executeTool("read", { path: "a" }, { signal }), await ctx.executeTool("write", undefined));
      return DONE;
    },
  });
  const answers = [{ ...DONE, structuredContent: "" }, { ...DONE, isError: true, structuredContent: null }];
  await runScript(fake, natives, SCRIPT, async (call, given) => {
    asked.push(call);
    assert.equal(given, asked.length === 1 ? signal : undefined);
    return answers[asked.length - 1]!;
  }, running);
  assert.deepEqual(asked, [
    { scriptId: "c#1", callId: "c#1/1", tool: "read", arguments: { path: "a" } },
    { scriptId: "c#1", callId: "c#1/2", tool: "write", arguments: {} },
  ]);
  const { content, details } = DONE;
  assert.deepEqual(results, [
    {
      toolCall: { type: "toolCall", id: "c#1/1", name: "read", arguments: { path: "a" } },
      result: { content, details, structuredContent: "" },
      isError: false,
    },
    { toolCall: { type: "toolCall", id: "c#1/2", name: "write", arguments: {} }, result: { content, details }, isError: true },
  ]);
});

test("a script sees what its run has stored, and what it stores goes to the service alone", async () => {
  const before = { customType: "codemode-store", data: { set: { a: 1 }, delete: [] } };
  const after = { customType: "codemode-store", data: { set: {}, delete: ["a"] } };
  const { fake } = codemode({
    execute(pi, _id, _params, _signal, _update, ctx) {
      assert.deepEqual(ctx.sessionManager.getBranch(), [{ type: "custom", ...before }]);
      assert.deepEqual(pi.getAllTools().map(({ name }) => name), ["read"]);
      pi.appendEntry(after.customType, after.data);
      return { ...DONE, details: { calls: [] } };
    },
  });
  const outcome = await runScript(fake, natives, { ...SCRIPT, stored: [before] }, noCalls, running);
  assert.deepEqual(outcome, { ...DONE, details: { calls: [] }, stored: [after] });
});

test("the signal reaches the script", async () => {
  const controller = new AbortController();
  const { fake } = codemode({
    execute: (_pi, id, params, signal) => {
      assert.deepEqual([id, params, signal], ["c#1", { code: "…" }, controller.signal]);
      return { ...DONE, isError: true };
    },
  });
  assert.equal((await runScript(fake, natives, SCRIPT, noCalls, controller.signal)).isError, true);
});

test("what Pi throws is what the model reads", async () => {
  const { fake } = codemode({ execute: () => assert.fail("an options line must be the first") });
  const refusing = { ...natives, validate: () => { throw new Error("code: missing"); } };
  for (const [tools, expected] of [[natives, "an options line must be the first"], [refusing, "code: missing"]] as const) {
    const outcome = await runScript(fake, tools, SCRIPT, noCalls, running);
    assert.deepEqual(outcome, { content: [{ type: "text", text: expected }], details: null, isError: true, stored: [] });
  }
});

test("settings that make no sense are Pi's defaults", () => {
  const read = (codemode: unknown, active: string[] = ["codemode"]) =>
    codemodeSettings({ getSettings: () => ({ codemode }) as never, getActiveTools: () => active });
  const fallback = { active: true, mode: "on", inlineBudget: 3_000 };
  for (const odd of [undefined, {}, { mode: "auto" }, { inlineBudget: -1 }, { inlineBudget: "9" }, { inlineBudget: Infinity }]) {
    assert.deepEqual(read(odd), fallback);
  }
  assert.deepEqual(read({ mode: "only", inlineBudget: 0.9 }, []), { active: false, mode: "only", inlineBudget: 0 });
});
