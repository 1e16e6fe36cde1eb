import assert from "node:assert/strict";
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, afterEach, beforeEach, mock, test } from "node:test";
import { connect } from "../../../supervisor/pi_extension/connect.ts";
import { Supervision } from "../../../supervisor/pi_extension/supervision.ts";
import type { Initialize } from "../../../supervisor/pi_extension/types.ts";
import { settle, until } from "./support.ts";

const folder = mkdtempSync(join(tmpdir(), "supervision-"));
const starts = join(folder, "starts");
const startedPids = (): number[] => readFileSync(starts, "utf8").split("\n").filter(Boolean).map(Number);

/** The head of each child: it notes its pid and knows how to answer. */
const PRELUDE = `
require("node:fs").appendFileSync(${JSON.stringify(starts)}, process.pid + "\\n");
const run = require("node:fs").readFileSync(${JSON.stringify(starts)}, "utf8").split("\\n").length - 1;
const send = (message) => process.stdout.write(JSON.stringify({ jsonrpc: "2.0", ...message }) + "\\n");
const hello = { protocolVersion: 1, service: {}, logFile: "/new.log", toolResultEvents: ["read"] };
const onFrame = (handle) => require("node:readline").createInterface({ input: process.stdin })
  .on("line", (line) => handle(JSON.parse(line)));
`;
const WELL = `onFrame(({ id, method }) => {
  if (method === "initialize") send({ id, result: hello });
  if (method === "echo") send({ id, result: "echo" });
  if (method === "shutdown") { send({ id, result: {} }); process.exit(0); }
});`;

function supervise(script: string, command?: [string, ...string[]]) {
  const warnings: string[] = [];
  const handshakes: boolean[] = [];
  const launch = { command: command ?? ([process.execPath, "-e", PRELUDE + script] as [string, ...string[]]), logFile: "/old.log", directory: folder };
  const supervision = new Supervision(launch, { requests: {}, notifications: {} }, {
    initialize(restarted) {
      handshakes.push(restarted);
      return { protocolVersion: 1 } as Initialize;
    },
    warn: (text) => warnings.push(text),
  });
  return { supervision, warnings, handshakes };
}

const isAlive = (pid: number): boolean => {
  try {
    return process.kill(pid, 0);
  } catch {
    return false;
  }
};
const started = (count: number) => until(() => startedPids().length >= count, `start ${count}`);
const leftovers = (kinds: RegExp): string[] => process.getActiveResourcesInfo().filter((kind) => kinds.test(kind));
const ask = (supervision: Supervision, method = "echo", boundMs = 1_000) => supervision.request(method, {}, { boundMs });

beforeEach(() => writeFileSync(starts, ""));
afterEach(async () => {
  mock.timers.reset();
  assert.deepEqual(leftovers(/Timeout/), []);
  await until(() => !startedPids().some(isAlive), "the children to end");
  await until(() => leftovers(/Process/).length === 0, "nothing of the service to be left");
});
after(() => rmSync(folder, { recursive: true }));

test("a service is started, asked, and ended", async () => {
  const { supervision, warnings, handshakes } = supervise(WELL);
  supervision.start();
  assert.equal(await ask(supervision), "echo");
  assert.deepEqual(supervision.toolResultEvents, ["read"]);
  await supervision.shutdown("quit");
  assert.deepEqual([warnings, handshakes, startedPids().length], [[], [false], 1]);
});

test("a program that is missing is one warning with reason and log, and nobody waits", async () => {
  const { supervision, warnings } = supervise("", [join(folder, "missing-python"), "-m", "x"]);
  supervision.start();
  const asked = ask(supervision);
  await assert.rejects(asked, /could not be started/);
  await until(() => warnings.length > 0, "a warning");
  await assert.rejects(ask(supervision), /could not be started .*missing-python ENOENT/);
  await supervision.shutdown("quit");
  assert.equal(warnings.length, 1);
  assert.match(warnings[0]!, /off for this session.*missing-python ENOENT.*doctor.*\/old\.log/);
});

test("a command that the system cannot take is a warning too", async () => {
  const { supervision, warnings } = supervise("", ["with\0nul"]);
  supervision.start();
  await assert.rejects(ask(supervision), /could not be started/);
  await supervision.shutdown("quit");
  assert.equal(warnings.length, 1);
});

test("a service that ends at once is tried four times and then left alone", async () => {
  const { supervision, warnings, handshakes } = supervise('process.stderr.write("first\\nno module\\n"); process.exitCode = 3;');
  supervision.start();
  await until(() => warnings.length === 2, "two warnings");
  await assert.rejects(ask(supervision), /ended with exit code 3; its last words: no module/);
  await supervision.shutdown("quit");
  assert.deepEqual([handshakes, startedPids().length], [[false, true, true, true], 4]);
  assert.match(warnings[0]!, /exit code 3; its last words: no module\. It is being started again\. Log: \/old\.log/);
  assert.match(warnings[1]!, /off for this session/);
});

test("an early start that has ended counts among the four", async () => {
  const { supervision, warnings, handshakes } = supervise("process.exitCode = 3;");
  supervision.start(false, "ended");
  await until(() => warnings.length === 2, "two warnings");
  await supervision.shutdown("quit");
  assert.deepEqual([handshakes, startedPids().length], [[false, true, true], 3]);
});

test("a service that dies between half an answer and the rest lets nobody wait, and comes back", async () => {
  const dying = `onFrame(({ id, method }) => {
    if (method === "initialize") send({ id, result: hello });
    if (method === "echo" && run === 1) { process.stdout.write('{"id":'); process.kill(process.pid, "SIGKILL"); }
    else if (method === "echo") send({ id, result: "back" });
    if (method === "shutdown") { send({ id, result: {} }); process.exit(0); }
  });`;
  const { supervision, warnings, handshakes } = supervise(dying);
  supervision.start();
  await assert.rejects(ask(supervision, "echo", 60_000));
  await started(2);
  assert.equal(await ask(supervision), "back");
  await supervision.shutdown("quit");
  assert.deepEqual(handshakes, [false, true]);
  assert.equal(warnings.length, 1);
  assert.match(warnings[0]!, /was ended by SIGKILL.*started again.*\/new\.log/);
});

test("each outage is told, and the fourth ends memory for the session", async () => {
  const { supervision, warnings } = supervise(`onFrame(({ id, method }) => {
    if (method === "initialize") send({ id, result: hello });
    if (method === "die") process.exit(7);
  });`);
  supervision.start();
  for (let outage = 1; outage <= 4; outage += 1) {
    await started(outage);
    await assert.rejects(ask(supervision, "die"));
    await until(() => warnings.length === outage, `warning ${outage}`);
  }
  await supervision.shutdown("quit");
  assert.deepEqual([warnings.filter((text) => text.includes("started again")).length, startedPids().length], [3, 4]);
  assert.match(warnings[3]!, /off for this session/);
});

test("another protocol version is told in the service's words and not tried again", async () => {
  const text = "this service speaks protocol version 2, the host 1";
  const refusal = `onFrame(({ id, method }) => {
    if (method === "initialize") send({ id, error: { code: -32001, message: ${JSON.stringify(text)} } });
  });`;
  const { supervision, warnings } = supervise(refusal);
  supervision.start();
  await until(() => warnings.length > 0, "a warning");
  await supervision.shutdown("quit");
  assert.deepEqual([warnings.length, startedPids().length], [1, 1]);
  assert.ok(warnings[0]!.includes(text));
  const hasty = supervise(refusal);
  hasty.supervision.start();
  await hasty.supervision.shutdown("quit");
  assert.deepEqual(hasty.warnings, warnings);
});

test("an answer with another version names both, and one that does not fit is refused", async () => {
  for (const [answer, expected] of [
    ["{ ...hello, protocolVersion: 2 }", /protocol version 2, this extension 1/],
    ["{ protocolVersion: 1 }", /lacks toolResultEvents/],
  ] as const) {
    const { supervision, warnings } = supervise(`onFrame(({ id }) => send({ id, result: ${answer} }));`);
    supervision.start();
    await until(() => warnings.length > 0, "a warning");
    await supervision.shutdown("quit");
    assert.equal(warnings.length, 1);
    assert.match(warnings[0]!, expected);
  }
});

test("no handshake within 5 s: ended with SIGKILL if need be, and only then replaced", async () => {
  mock.timers.enable({ apis: ["setTimeout"] });
  const asks = join(folder, "asked-to-end");
  const stubborn = `process.on("SIGTERM", () => require("node:fs").writeFileSync(${JSON.stringify(asks)}, ""));
    process.stdin.on("end", () => require("node:fs").writeFileSync(${JSON.stringify(`${asks}-first`)}, "")).resume();
    setInterval(() => {}, 1000);`;
  const { supervision, warnings, handshakes } = supervise(`if (run === 1) { ${stubborn} } else { ${WELL} }`);
  supervision.start();
  await started(1);
  const [first] = startedPids() as [number];
  const asked = ask(supervision, "echo", 60_000);
  mock.timers.tick(5_000);
  await assert.rejects(asked, /did not answer the handshake within 5 s/);
  await assert.rejects(ask(supervision), /did not answer the handshake within 5 s/);
  for (const sign of [`${asks}-first`, asks]) {
    await until(() => existsSync(sign), "the service to be asked to end");
    assert.ok(isAlive(first));
    assert.equal(handshakes.length, 1);
    mock.timers.tick(1_500);
  }
  await until(() => handshakes.length === 2, "the replacement");
  assert.equal(isAlive(first), false);
  assert.equal(await ask(supervision), "echo");
  await supervision.shutdown("quit");
  assert.match(warnings.join(), /did not answer the handshake within 5 s.*started again/);
});

test("a service that stops answering is replaced after 5 s of silence, one that is only slow is not", async () => {
  mock.timers.enable({ apis: ["setTimeout"] });
  const slow = `onFrame(({ id, method, params }) => {
    if (method === "initialize") send({ id, result: hello });
    if (method === "$/cancel" && run > 1) send({ id: params.id, error: { code: -32800, message: "cancelled" } });
    if (method === "heard") send({ id, result: {} });
    if (method === "shutdown") { send({ id, result: {} }); process.exit(0); }
  });`;
  const { supervision, warnings, handshakes } = supervise(slow);
  supervision.start();
  const lose = async () => {
    await ask(supervision, "heard");
    const lost = ask(supervision, "lost");
    mock.timers.tick(1_000);
    await assert.rejects(lost, /no answer to lost within 1 s/);
  };
  await lose();
  mock.timers.tick(4_999);
  await settle();
  assert.equal(warnings.length, 0);
  mock.timers.tick(1);
  await until(() => handshakes.length === 2, "the replacement");
  assert.match(warnings.join(), /stopped answering/);
  await lose();
  await ask(supervision, "heard");
  mock.timers.tick(60_000);
  await settle();
  await supervision.shutdown("quit");
  assert.deepEqual([handshakes.length, warnings.length], [2, 1]);
});

test("an overdue answer leaves no timer behind, whether the service lives on or dies", async () => {
  const { supervision } = supervise(`onFrame(({ id, method }) => {
    if (method === "initialize") send({ id, result: hello });
    if (method === "$/cancel") process.exit(7);
  });`);
  supervision.start();
  await assert.rejects(ask(supervision, "lost", 300), /no answer to lost/);
  await supervision.shutdown("quit");
});

test("a service that ends well is not missed, even if its last answer is", async () => {
  const { supervision, warnings } = supervise(`onFrame(({ id, method }) => {
    if (method === "initialize") send({ id, result: hello });
    if (method === "shutdown") process.exit(0);
  });`);
  supervision.start();
  await supervision.shutdown("quit");
  assert.deepEqual([warnings, startedPids().length], [[], 1]);
});

test("a service that closes its output but lives on is ended and replaced", async () => {
  const { supervision, warnings, handshakes } = supervise(`if (run > 1) { ${WELL} } else {
    onFrame(({ id }) => { send({ id, result: hello }); process.stdout.end(() => require("node:fs").closeSync(1)); });
  }`);
  supervision.start();
  await until(() => handshakes.length === 2, "the replacement");
  assert.equal(await ask(supervision), "echo");
  await supervision.shutdown("quit");
  assert.match(warnings.join("|"), /^[^|]*the service closed its output\. It is being started again[^|]*$/);
});

test("a service that closes its input is found out by the next write", async () => {
  const { supervision, warnings, handshakes } = supervise(`if (run > 1) { ${WELL} } else {
    const line = Buffer.alloc(4096);
    require("node:fs").readSync(0, line);
    require("node:fs").closeSync(0);
    send({ id: 1, result: hello });
    setInterval(() => {}, 1000);
  }`);
  supervision.start();
  await until(() => supervision.toolResultEvents.length > 0, "the handshake");
  await assert.rejects(ask(supervision, "echo", 60_000), /does not read its input \(write EPIPE\)/);
  await until(() => handshakes.length === 2, "the replacement");
  await supervision.shutdown("quit");
  assert.match(warnings.join("|"), /^[^|]*does not read its input \(write EPIPE\)[^|]*$/);
});

test("a shutdown ends the waits of the session's events, and lets the service finish", async () => {
  const { supervision, warnings } = supervise(`onFrame(({ id, method }) => {
    if (method === "initialize") send({ id, result: hello });
    if (method === "effect") send({ id, result: "done" });
    if (method === "shutdown") setTimeout(() => { send({ id, result: {} }); process.exit(0); }, 50);
  });`);
  supervision.start();
  const asked = ask(supervision, "before_agent_start", 60_000);
  const ended = supervision.shutdown("new");
  await assert.rejects(asked, /cancelled/);
  await assert.rejects(ask(supervision), /cancelled/);
  assert.equal(await supervision.operation("effect", {}, { boundMs: 1_000 }), "done");
  await ended;
  assert.deepEqual(warnings, []);
});

test("a service that never finishes is ended after its bound, with SIGKILL if need be", async () => {
  mock.timers.enable({ apis: ["setTimeout"] });
  const { supervision, warnings } = supervise(`process.on("SIGTERM", () => {}); setInterval(() => {}, 1000);
    onFrame(({ id, method }) => { if (method !== "shutdown") send({ id, result: hello }); });`);
  supervision.start();
  await ask(supervision);
  const ended = supervision.shutdown("quit");
  mock.timers.tick(64_999);
  await settle();
  assert.deepEqual(warnings, []);
  for (const step of [1, 5_000, 1_500]) {
    mock.timers.tick(step);
    await settle();
  }
  await ended;
  assert.match(warnings.join(), /no answer to shutdown within 65 s/);
});

test("a service that dies while it finishes is told of, and not started again", async () => {
  const { supervision, warnings } = supervise(`onFrame(({ id, method }) => {
    if (method === "initialize") send({ id, result: hello });
    else process.exit(9);
  });`);
  supervision.start();
  await supervision.shutdown("quit");
  assert.equal(startedPids().length, 1);
  assert.match(warnings.join(), /exit code 9\. It had not finished its work/);
});

test("an end of the session ends a restart under way", async () => {
  const { supervision, handshakes } = supervise('process.on("SIGTERM", () => process.exit(0)); process.stdout.end(); setInterval(() => {}, 1000); require("node:fs").closeSync(1);');
  supervision.start();
  await assert.rejects(ask(supervision, "echo", 60_000));
  await supervision.shutdown("quit");
  assert.equal(handshakes.length, 1);
});

test("what a dead service left in its process group goes with it, and pipes held elsewhere keep nothing alive", async () => {
  mock.timers.enable({ apis: ["setTimeout"] });
  const pids = join(folder, "children");
  writeFileSync(pids, "");
  const spawnChild = (options: string) =>
    `require("node:fs").appendFileSync(${JSON.stringify(pids)}, require("node:child_process").spawn("sleep", ["60"], ${options}).pid + "\\n");`;
  const { supervision } = supervise(`${spawnChild('{ stdio: "inherit" }')} ${spawnChild('{ stdio: "inherit", detached: true }')} ${WELL}`);
  supervision.start();
  await ask(supervision);
  const [inGroup, escaped] = readFileSync(pids, "utf8").split("\n").map(Number) as [number, number];
  let ended = false;
  void supervision.shutdown("quit").then(() => {
    ended = true;
  });
  await until(() => !isAlive(inGroup), "the child in the group to end");
  await settle();
  mock.timers.tick(500);
  await until(() => ended, "the shutdown to end");
  assert.ok(isAlive(escaped));
  process.kill(escaped, "SIGKILL");
});

test("without a launch.json memory is off, with one warning, and everything goes on", async () => {
  const warnings: string[] = [];
  const hooks = { initialize: () => assert.fail("nothing to shake hands with"), warn: (text: string) => warnings.push(text) };
  const service = connect(join(folder, "nowhere"), { requests: {}, notifications: {} }, hooks);
  for (const asked of [service.request, service.operation]) {
    await assert.rejects(asked.call(service, "command", {}, { boundMs: 1 }), /off for this session.*launch\.json/);
  }
  service.notify("x", {});
  await service.shutdown("quit");
  assert.equal(warnings.length, 1);
});
