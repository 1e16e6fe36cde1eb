import assert from "node:assert/strict";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { test } from "node:test";
import type { Message } from "@earendil-works/pi-ai";
import { Code, RpcError } from "../../../supervisor/pi_extension/errors.ts";
import { type Models, mergePayload, resolveModel, streamModel } from "../../../supervisor/pi_extension/models.ts";

const INFO = { provider: "p", id: "m", api: "openai-completions", reasoning: true, contextWindow: 10, maxTokens: 5 };
const OTHER = { ...INFO, id: "other" };

interface Call {
  model: unknown;
  context: any;
  options: any;
}

function fakeModels({ active = OTHER as object | null, auth = true, answer = async (_call: Call): Promise<unknown> => "message" } = {}) {
  const calls: Call[] = [];
  const registry = {
    find: (provider: string, id: string) => (provider === "p" && id === "m" ? { ...INFO, baseUrl: "secret" } : undefined),
    hasConfiguredAuth: () => auth,
    streamSimple: (model: unknown, context: unknown, options: unknown) => {
      const call = { model, context, options };
      calls.push(call);
      return { result: () => answer(call) };
    },
  };
  const models = { active: () => active, registry: () => registry, clampThinkingLevel: () => "low" } as unknown as Models;
  return { models, calls };
}

const KEPT = [{ role: "system", content: "be kind" }, { role: "user", content: "hi" }];
const parents = {
  messages(handle: string) {
    if (handle !== "p1") throw new RpcError(Code.invalidParams, `parent: no request is kept as ${handle}`);
    return KEPT as unknown as Message[];
  },
};

const never = new AbortController().signal;

test("a named model is found with its level clamped, and nothing but its facts crosses", () => {
  const query = { provider: "p", modelId: "m", thinkingLevel: "max" } as const;
  assert.deepEqual(resolveModel(fakeModels().models, query), { status: "ok", model: INFO, thinkingLevel: "low" });
});

test("without names the session's own model answers", () => {
  const query = { provider: null, thinkingLevel: "off" } as const;
  assert.deepEqual(resolveModel(fakeModels().models, query).model, OTHER);
});

test("what is missing is said, and never replaced by another model", () => {
  const failed = (status: string) => ({ status, model: null, thinkingLevel: "off" });
  const named = { provider: "p", modelId: "x", thinkingLevel: "off" } as const;
  const own = { thinkingLevel: "off" } as const;
  assert.deepEqual(resolveModel(fakeModels().models, named), failed("not_found"));
  assert.deepEqual(resolveModel(fakeModels({ active: null }).models, own), failed("no_active_model"));
  assert.deepEqual(resolveModel(fakeModels({ auth: false }).models, own), failed("no_credentials"));
});

test("a request carries its context and the options given, and leaves the rest to Pi", async () => {
  const { models, calls } = fakeModels();
  const options = { maxTokens: 7, reasoning: "high", cacheRetention: null, sessionId: "s", disableContinuation: true } as const;
  const request = { provider: "p", modelId: "m", messages: [{ role: "user" }], systemPrompt: "be brief", tools: [{ name: "t" }], options };
  const answer = await streamModel(models, parents, request, never);
  const { context, options: passed } = calls[0]!;
  assert.deepEqual(context, { messages: [{ role: "user" }], systemPrompt: "be brief", tools: [{ name: "t" }] });
  const { fetch: _fetch, onResponse: _onResponse, ...plain } = passed;
  assert.deepEqual(plain, { maxTokens: 7, reasoning: "high", sessionId: "s", disableContinuation: true, signal: never });
  assert.deepEqual(answer, { message: "message", httpStatus: null });
});

test("level off and an empty context are left out", async () => {
  const { models, calls } = fakeModels();
  await streamModel(models, parents, { provider: "p", modelId: "m", messages: [], tools: [], options: { reasoning: "off" } }, never);
  assert.deepEqual(Object.keys(calls[0]!.options).sort(), ["fetch", "onResponse", "signal"]);
  assert.deepEqual(calls[0]!.context, { messages: [] });
});

test("the patch is merged into the payload", async () => {
  const { models, calls } = fakeModels();
  const payloadPatch = { text: { format: { type: "json_schema" } } };
  await streamModel(models, parents, { provider: "p", modelId: "m", messages: [], payloadPatch }, never);
  assert.deepEqual(calls[0]!.options.onPayload({ model: "m", text: { verbosity: "low" } }), {
    model: "m",
    text: { verbosity: "low", format: { type: "json_schema" } },
  });
});

test("objects are merged key by key, everything else is replaced", () => {
  const payload = { a: { x: 1, y: [1] }, b: [1], c: 1, d: null };
  const patch = { a: { y: [2], z: { w: 1 } }, b: { k: 1 }, c: { k: 1 }, d: {}, e: null };
  assert.deepEqual(mergePayload(payload, patch), { a: { x: 1, y: [2], z: { w: 1 } }, b: { k: 1 }, c: { k: 1 }, d: {}, e: null });
  assert.deepEqual(payload, { a: { x: 1, y: [1] }, b: [1], c: 1, d: null });
});

test("the status is the last one seen, through fetch or through onResponse", async () => {
  const server = createServer((_request, response) => response.writeHead(429).end()).listen(0, "127.0.0.1");
  await new Promise((resolve) => server.once("listening", resolve));
  const { port } = server.address() as AddressInfo;
  const throughFetch = fakeModels({ answer: ({ options }) => options.fetch(`http://127.0.0.1:${port}/`) });
  const request = { provider: "p", modelId: "m", messages: [] };
  assert.equal((await streamModel(throughFetch.models, parents, request, never)).httpStatus, 429);
  const throughHook = fakeModels({ answer: async ({ options }) => options.onResponse({ status: 503, headers: {} }) });
  assert.equal((await streamModel(throughHook.models, parents, request, never)).httpStatus, 503);
  server.close();
});

test("a parent request goes out before the messages, with nothing else of its own", async () => {
  const { models, calls } = fakeModels();
  await streamModel(models, parents, { provider: "p", modelId: "m", messages: [{ role: "user" }], parent: "p1" }, never);
  assert.deepEqual(calls[0]!.context, { messages: [...KEPT, { role: "user" }] });
});

test("a model that Pi does not know, and a parent that is not kept, are refused", async () => {
  const { models } = fakeModels();
  const request = { provider: "p", modelId: "m", messages: [] };
  await assert.rejects(streamModel(models, parents, { ...request, modelId: "x" }, never), { code: -32602, message: /p\/x/ });
  await assert.rejects(streamModel(models, parents, { ...request, parent: "s1" }, never), { code: -32602, message: /parent/ });
});
