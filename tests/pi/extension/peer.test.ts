import assert from "node:assert/strict";
import { beforeEach, mock, test } from "node:test";
import { CancelledError, OverdueError, RpcError } from "../../../supervisor/pi_extension/errors.ts";
import { type Handlers, Peer } from "../../../supervisor/pi_extension/peer.ts";
import { settle } from "./support.ts";

type Frame = Record<string, any>;

function conversation(handlers: Partial<Handlers> = {}) {
  const sent: Frame[] = [];
  const seen = { overdue: 0 };
  const peer = new Peer({
    write: (frame) => sent.push(JSON.parse(frame.toString())),
    handlers: { requests: {}, notifications: {}, ...handlers },
    onOverdue: () => {
      seen.overdue += 1;
    },
  });
  const hear = (...frames: (Frame | string)[]): void => {
    const lines = frames.map((frame) => `${typeof frame === "string" ? frame : JSON.stringify(frame)}\n`);
    peer.receive(Buffer.from(lines.join("")));
  };
  return { peer, sent, hear, seen };
}

const errorsOf = (sent: Frame[]) => sent.map(({ id, error }) => [id, error?.code]);

beforeEach(() => mock.timers.reset());

test("answers find their requests in any order", async () => {
  const { peer, sent, hear } = conversation();
  const first = peer.request("a", { x: 1 }, { boundMs: 1000 });
  const second = peer.request("b", {}, { boundMs: 1000 });
  hear({ id: 2, result: "two" }, { id: 1, result: { y: 1 } });
  assert.deepEqual(await Promise.all([first, second]), [{ y: 1 }, "two"]);
  assert.deepEqual(sent[0], { jsonrpc: "2.0", id: 1, method: "a", params: { x: 1 } });
});

test("an error answer rejects with its code and text", async () => {
  const { peer, hear } = conversation();
  const asked = peer.request("a", {}, { boundMs: 1000 });
  hear({ id: 1, error: { code: -32001, message: "version 2, not 1" } });
  await assert.rejects(asked, (error: RpcError) => error.code === -32001 && error.message === "version 2, not 1");
});

test("an overdue request is cancelled, told of, and its late answer dropped", async () => {
  mock.timers.enable({ apis: ["setTimeout"] });
  const { peer, sent, hear, seen } = conversation();
  const asked = peer.request("a", {}, { boundMs: 2500 });
  mock.timers.tick(2499);
  assert.equal(sent.length, 1);
  mock.timers.tick(1);
  await assert.rejects(asked, OverdueError);
  assert.deepEqual(sent[1], { jsonrpc: "2.0", method: "$/cancel", params: { id: 1 } });
  assert.equal(seen.overdue, 1);
  hear({ id: 1, result: "late" });
  assert.equal(sent.length, 2);
});

test("the caller's signal cancels at once and is not an overdue answer", async () => {
  const { peer, sent, seen } = conversation();
  const controller = new AbortController();
  const asked = peer.request("a", {}, { boundMs: 1000, signal: controller.signal });
  controller.abort();
  assert.equal(sent[1]?.method, "$/cancel");
  await assert.rejects(asked, CancelledError);
  await assert.rejects(peer.request("b", {}, { boundMs: 1000, signal: controller.signal }), CancelledError);
  assert.deepEqual([sent.length, seen.overdue], [2, 0]);
});

test("closing rejects every wait at once, and what comes later", async () => {
  const { peer, sent, hear } = conversation();
  const waits = [peer.request("a", {}, { boundMs: 1000 }), peer.request("b", {}, { boundMs: 1000 })];
  peer.close(new Error("gone"));
  const outcomes = await Promise.allSettled([...waits, peer.request("c", {}, { boundMs: 1000 })]);
  assert.deepEqual(outcomes.map((outcome) => (outcome as PromiseRejectedResult).reason.message), Array(3).fill("gone"));
  peer.notify("d", {});
  hear({ id: 1, result: 1 }, "garbage");
  assert.equal(sent.length, 2);
});

test("requests are answered with results, or with the error of their handler", async () => {
  const { sent, hear } = conversation({
    requests: {
      good: async (params) => ({ echo: params }),
      nothing: () => undefined,
      refuses: () => {
        throw new RpcError(-32002, "stale");
      },
      breaks: async () => {
        throw new Error("broken");
      },
    },
  });
  hear(...["good", "nothing", "refuses", "breaks", "unknown", "toString"].map((method) => ({ id: method, method, params: 1 })));
  await settle();
  const answers = new Map(sent.map((frame) => [frame.id, frame.result ?? frame.error.code]));
  assert.deepEqual(Object.fromEntries(answers), {
    good: { echo: 1 },
    nothing: {},
    refuses: -32002,
    breaks: -32603,
    unknown: -32601,
    toString: -32601,
  });
});

test("frames that cannot be read get an error and end nothing", async () => {
  const { peer, sent, hear } = conversation({ requests: { good: () => 1 } });
  hear("garbage", "[1]", "1", '{"a":1}', '{"id":{},"method":"good"}', '{"method":"unknown"}', '{"id":1.5,"method":"good"}');
  peer.receive(Buffer.from('{"id":1,"method":"\xff"}\n', "latin1"));
  hear({ id: "x", method: "good" });
  await settle();
  const codes = [-32700, -32600, -32600, -32600, -32600, -32601, -32600, -32700];
  assert.deepEqual(errorsOf(sent), [...codes.map((code) => [null, code]), ["x", undefined]]);
});

test("errors about frames of ours are not answered", () => {
  const { sent, hear } = conversation();
  hear({ id: null, error: { code: -32700, message: "?" } }, { id: 77, result: 1 });
  assert.deepEqual(sent, []);
});

test("a frame over 64 MiB is refused and the conversation goes on", () => {
  const { peer, sent } = conversation();
  const piece = Buffer.alloc(16 * 1024 * 1024, "x");
  for (let count = 0; count < 5; count += 1) peer.receive(piece);
  peer.receive(Buffer.from('\n{"id":1,"method":"unknown"}\n'));
  return settle().then(() => assert.deepEqual(errorsOf(sent), [[null, -32700], [1, -32601]]));
});

test("an id that is being answered is refused, and free again afterwards", async () => {
  const gate = Promise.withResolvers<number>();
  const { sent, hear } = conversation({ requests: { slow: () => gate.promise } });
  hear({ id: 5, method: "slow" }, { id: 5, method: "slow" });
  assert.deepEqual(errorsOf(sent), [[null, -32600]]);
  gate.resolve(1);
  await settle();
  hear({ id: 5, method: "slow" });
  await settle();
  assert.deepEqual(sent.slice(1).map((frame) => [frame.id, frame.result]), [[5, 1], [5, 1]]);
});

test("$/cancel reaches the handler's signal before the next frame is looked at", async () => {
  const signals: AbortSignal[] = [];
  const { sent, hear } = conversation({
    requests: {
      stream: (_params, signal) => {
        signals.push(signal);
        return new Promise((resolve) => signal.addEventListener("abort", () => resolve("aborted message")));
      },
    },
  });
  hear({ id: 1, method: "stream" }, { method: "$/cancel", params: { id: 1 } });
  assert.equal(signals[0]?.aborted, true);
  await settle();
  assert.deepEqual(errorsOf(sent), [[1, -32800]]);
});

test("closing aborts what is being answered", () => {
  let aborted = false;
  const { peer, sent, hear } = conversation({
    requests: { stream: (_params, signal) => new Promise(() => signal.addEventListener("abort", () => (aborted = true))) },
  });
  hear({ id: 1, method: "stream" });
  peer.close(new Error("gone"));
  assert.deepEqual([aborted, sent.length], [true, 0]);
});

test("a result that is over the limit becomes an error answer", async () => {
  const { sent, hear } = conversation({ requests: { big: () => "x".repeat(64 * 1024 * 1024) } });
  hear({ id: 1, method: "big" });
  await settle();
  assert.deepEqual(errorsOf(sent), [[1, -32603]]);
});
