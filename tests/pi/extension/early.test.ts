import assert from "node:assert/strict";
import { ChildProcess } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, test } from "node:test";
import { EarlyStart } from "../../../supervisor/pi_extension/early.ts";

const folder = mkdtempSync(join(tmpdir(), "early-"));
after(() => rmSync(folder, { recursive: true }));

function launch(...command: string[]): string {
  writeFileSync(join(folder, "launch.json"), JSON.stringify({ command, logFile: "log" }));
  return folder;
}

test("the process that was started early is handed out once", async () => {
  const early = new EarlyStart(launch("/bin/cat"));
  const child = early.take();
  assert.ok(child instanceof ChildProcess);
  assert.equal(early.take(), undefined);
  const gone = once(child, "exit");
  child.stdin?.end();
  assert.deepEqual(await gone, [0, null]);
});

test("a second start gives the first one up, whose process then ends with its input", async () => {
  const first = new EarlyStart(launch("/bin/sh", "-c", "cat; touch ended"));
  const second = new EarlyStart(folder);
  assert.equal(first.take(), undefined);
  const child = second.take();
  assert.ok(child instanceof ChildProcess);
  const gone = once(child, "exit");
  child.stdin?.end();
  await gone;
});

test("what has ended is told", async () => {
  const ended = new EarlyStart(launch("/bin/true"));
  await new Promise((resolve) => setTimeout(resolve, 300));
  assert.equal(ended.take(), "ended");
  assert.equal(ended.take(), undefined);
});

test("what cannot be started or is not installed is not handed out", () => {
  assert.equal(new EarlyStart(launch(join(folder, "nothing"))).take(), undefined);
  assert.equal(new EarlyStart(join(folder, "nowhere")).take(), undefined);
});
