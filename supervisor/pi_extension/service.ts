/** One service process: started without a shell, in a session of its own, and ended for sure. */

import type { ChildProcess } from "node:child_process";
import { asError } from "./errors.ts";
import { type Launch, spawnService } from "./launch.ts";
import { type Handlers, Peer } from "./peer.ts";

/** After a request found no answer, this much silence means that the service does not answer at all. */
export const SILENCE_MS = 5_000;
/** How long a process may take to end after SIGTERM, and its pipes after its end. */
export const TERM_GRACE_MS = 1_500;
const PIPE_GRACE_MS = 500;
const STDERR_BYTES = 4_096;

/** How a failure was seen: at a pipe, by the exit, or in what the service did or left undone. */
type Seen = "pipe" | "exit" | "conduct";

export class ServiceProcess {
  readonly peer: Peer;
  readonly #child: ChildProcess;
  readonly #onFailure: () => void;
  readonly #gone: Promise<void>;
  #failure: { reason: string; seen: Seen } | undefined;
  #errors = Buffer.alloc(0);
  #silence: NodeJS.Timeout | undefined;
  #stopping: Promise<void> | undefined;
  #signalled = false;

  /** Starts the program unless it runs already; one that cannot be started is a failure like any other. */
  constructor(launch: Launch, handlers: Handlers, onFailure: () => void, running?: ChildProcess) {
    const [program] = launch.command;
    this.#onFailure = onFailure;
    this.#child = running ?? spawnService(launch);
    this.peer = new Peer({
      write: (frame) => void this.#child.stdin?.write(frame),
      handlers,
      onOverdue: () => this.#listenForLife(),
    });
    this.#gone = new Promise((resolve) => this.#watch(program, resolve));
  }

  /** Why it failed, with the last line of its standard error; empty as long as it has not. */
  get reason(): string {
    const line = this.#errors.toString("utf8").trimEnd().split("\n").at(-1)?.trim();
    return this.#failure ? this.#failure.reason + (line ? `; its last words: ${line}` : "") : "";
  }

  /** False for a program that the system could not even start. */
  get started(): boolean {
    return this.#child.pid !== undefined;
  }

  /** Whether all that has happened is that it ended, and without an error. */
  get endedWell(): boolean {
    return this.#child.exitCode === 0 && this.#failure?.seen !== "conduct";
  }

  /** Rejects everything that waits for this process, at once and for the first reason given. */
  fail(reason: string, seen: Seen = "conduct"): void {
    if (this.#failure || this.#stopping) return;
    this.#failure = { reason, seen };
    this.peer.close(new Error(`the service ${reason}`));
    this.#onFailure();
  }

  /** Ends the process: end of input, SIGTERM, SIGKILL, in this order. Resolves when it is gone. */
  stop(graceMs: number): Promise<void> {
    this.#stopping ??= this.#stop(graceMs);
    return this.#stopping;
  }

  #watch(program: string, resolve: () => void): void {
    const child = this.#child;
    child.on("error", (error) => {
      if (this.started) return;
      this.fail(`could not be started (${program}: ${error.message})`);
      resolve();
    });
    child.on("exit", (code, signal) => {
      this.#exited(signal ? `was ended by ${signal}` : `ended with exit code ${code}`);
    });
    child.on("close", resolve);
    child.stdin?.on("error", (error) => this.fail(`does not read its input (${error.message})`, "pipe"));
    child.stdout?.on("end", () => this.fail("closed its output", "pipe"));
    child.stdout?.on("data", (chunk: Buffer) => this.#receive(chunk));
    child.stderr?.on("data", (chunk: Buffer) => {
      this.#errors = Buffer.concat([this.#errors, chunk]).subarray(-STDERR_BYTES);
    });
  }

  #exited(how: string): void {
    this.fail(how, "exit");
    // A broken pipe is often seen before the exit that explains it, unless that was of our own making.
    const explains = this.#failure?.seen === "pipe" && !this.#signalled && !this.endedWell;
    if (explains) this.#failure = { reason: how, seen: "exit" };
    signalGroup(this.#child, "SIGKILL");
    setTimeout(() => this.#letGo(), PIPE_GRACE_MS).unref();
  }

  #receive(chunk: Buffer): void {
    this.#stopListening();
    this.peer.receive(chunk);
  }

  #listenForLife(): void {
    if (this.#stopping) return;
    this.#silence ??= setTimeout(() => this.fail("stopped answering"), SILENCE_MS);
  }

  #stopListening(): void {
    clearTimeout(this.#silence);
    this.#silence = undefined;
  }

  async #stop(graceMs: number): Promise<void> {
    this.#stopListening();
    this.peer.close(new Error("the service is being ended"));
    this.#child.stdin?.end();
    if (await this.#goneWithin(graceMs)) return;
    this.#signalled = true;
    signalGroup(this.#child, "SIGTERM");
    if (await this.#goneWithin(TERM_GRACE_MS)) return;
    signalGroup(this.#child, "SIGKILL");
    if (await this.#goneWithin(TERM_GRACE_MS)) return;
    this.#letGo();
    this.#child.unref();
  }

  async #goneWithin(boundMs: number): Promise<boolean> {
    const { promise, resolve } = Promise.withResolvers<boolean>();
    const timer = setTimeout(() => resolve(false), boundMs);
    const gone = await Promise.race([this.#gone.then(() => true), promise]);
    clearTimeout(timer);
    return gone;
  }

  /** A grandchild may hold the pipes of a dead service open; nothing of it may keep Pi alive. */
  #letGo(): void {
    for (const pipe of [this.#child.stdin, this.#child.stdout, this.#child.stderr]) pipe?.destroy();
  }
}

/** Reaches the children of the service too: it leads a process group of its own. */
function signalGroup(child: ChildProcess, signal: NodeJS.Signals): void {
  if (child.pid === undefined) return;
  try {
    process.kill(-child.pid, signal);
  } catch (error) {
    if ((asError(error) as NodeJS.ErrnoException).code !== "ESRCH") child.kill(signal);
  }
}
