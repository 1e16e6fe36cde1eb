import assert from "node:assert/strict";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, test } from "node:test";
import { History } from "../../../supervisor/pi_extension/history.ts";
import { readLaunch } from "../../../supervisor/pi_extension/launch.ts";
import { readParams } from "../../../supervisor/pi_extension/params.ts";
import { RestartBudget } from "../../../supervisor/pi_extension/restarts.ts";

const MINUTE = 60_000;
const folder = mkdtempSync(join(tmpdir(), "launch-"));
after(() => rmSync(folder, { recursive: true }));

const ids = (...names: string[]) => names.map((id) => ({ id }));

test("three restarts in five minutes, and one more when the oldest has left the window", () => {
  const budget = new RestartBudget();
  const taken = [0, MINUTE, 2 * MINUTE, 3 * MINUTE, 5 * MINUTE - 1, 5 * MINUTE, 5 * MINUTE + 1].map((at) => budget.take(at));
  assert.deepEqual(taken, [true, true, true, false, false, true, false]);
});

test("a branch that only grows keeps its handle", () => {
  let branch = ids("a", "b");
  const history = new History(() => branch);
  assert.deepEqual(history.head(), { handle: "h1", length: 2 });
  branch = ids("a", "b", "c");
  assert.deepEqual(history.head(), { handle: "h1", length: 3 });
  assert.deepEqual(history.slice("h1", 1, 3), ids("b", "c"));
});

test("a branch that lost an entry is another one, told or not", () => {
  let branch = ids("a", "b", "c");
  const history = new History(() => branch);
  history.head();
  branch = ids("a", "b");
  assert.throws(() => history.slice("h1", 0, 1), { code: -32002 });
  branch = ids("a", "x", "y", "z");
  assert.deepEqual(history.head(), { handle: "h3", length: 4 });
  assert.deepEqual(history.renew(), { handle: "h4", length: 4 });
});

test("a range must be whole numbers, and ends where the branch ends", () => {
  const history = new History(() => ids("a", "b"));
  for (const [start, stop] of [[-1, 1], [0, 1.5], [0, undefined], ["0", 1]]) {
    assert.throws(() => history.slice("h1", start, stop), { code: -32602 });
  }
  assert.deepEqual(history.slice("h1", 1, 99), ids("b"));
});

test("of entries that are not of the wanted types comes the id and type alone", () => {
  const branch = [{ id: "a", type: "message", message: { content: "long" } }, { id: "b", type: "custom", data: { n: 1 } }];
  const history = new History(() => branch);
  assert.deepEqual(history.slice("h1", 0, 2, ["custom"]), [{ id: "a", type: "message" }, branch[1]]);
  assert.deepEqual(history.slice("h1", 0, 2, []), [{ id: "a", type: "message" }, { id: "b", type: "custom" }]);
  for (const types of [null, undefined]) assert.deepEqual(history.slice("h1", 0, 2, types), branch);
  for (const types of ["custom", {}, 1]) assert.throws(() => history.slice("h1", 0, 2, types), { code: -32602 });
});

test("image data stays out of history, wherever it is", () => {
  const image = { type: "image", mimeType: "image/png", data: "AAAA" };
  const message = { content: [{ type: "text", text: "see" }, image], nestedCalls: [{ content: [image] }] };
  const branch = [{ id: "a", message }];
  const bare = { type: "image", mimeType: "image/png" };
  const read = new History(() => branch).slice("h1", 0, 1);
  assert.deepEqual(read, [{ id: "a", message: { content: [{ type: "text", text: "see" }, bare], nestedCalls: [{ content: [bare] }] } }]);
  assert.equal(image.data, "AAAA");
});

test("launch.json says what to start, and where", () => {
  writeFileSync(join(folder, "launch.json"), '{"command": ["/usr/bin/python3", "-m", "x"], "logFile": "/log"}');
  assert.deepEqual(readLaunch(folder), { command: ["/usr/bin/python3", "-m", "x"], logFile: "/log", directory: folder });
});

test("a launch.json that cannot be used is named with the remedy", () => {
  const path = join(folder, "launch.json");
  for (const text of ["", "null", "{}", '{"command": [], "logFile": "x"}', '{"command": ["x", 1], "logFile": "x"}', '{"command": ["x"]}']) {
    writeFileSync(path, text);
    assert.throws(() => readLaunch(folder), (error: Error) => error.message.includes(path) && error.message.includes("pi-project-memory install"));
  }
  assert.throws(() => readLaunch(join(folder, "missing")), /missing.*launch\.json.*ENOENT.*pi-project-memory install/);
});

test("parameters that do not fit are refused by the name of the field", () => {
  type Asked = { provider: string; messages: unknown[]; data: object };
  const shape = { provider: "text", messages: "list", data: "object" } as const;
  const good = { provider: "p", messages: [], data: {}, more: 1 };
  assert.equal(readParams<Asked>(good, shape), good);
  for (const [broken, named] of [
    [undefined, /not an object/],
    [[], /not an object/],
    [{ ...good, provider: 1 }, /provider must be a text/],
    [{ ...good, messages: {} }, /messages must be a list/],
    [{ ...good, data: [] }, /data must be an object/],
  ] as const) {
    assert.throws(() => readParams<Asked>(broken, shape), { code: -32602, message: named });
  }
});
