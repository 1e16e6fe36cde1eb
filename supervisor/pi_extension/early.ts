/** Starts the service's process while Pi is still loading, so that Pi waits less for the first answer. */

import type { ChildProcess } from "node:child_process";
import type { Socket } from "node:net";
import { readLaunch, spawnService } from "./launch.ts";

/** Pi may load an extension more than once before a session begins; one process is enough. */
const LATEST = Symbol.for("pi-project-memory.early-start");
const latest = globalThis as { [LATEST]?: EarlyStart };

type Holding = "ref" | "unref";

export class EarlyStart {
  #child: ChildProcess | undefined;

  /** A program that cannot be started is told of later, by the start that a session makes then. */
  constructor(directory: string) {
    latest[LATEST]?.giveUp();
    latest[LATEST] = this;
    try {
      this.#child = spawnService(readLaunch(directory));
      this.#child.on("error", () => undefined);
      hold(this.#child, "unref");
    } catch {
      this.#child = undefined;
    }
  }

  /** The process, for the session that has begun: undefined when it was taken, "ended" when it has not lived till then. */
  take(): ChildProcess | "ended" | undefined {
    const child = this.#child;
    this.#child = undefined;
    if (child?.pid === undefined) return undefined;
    if (child.exitCode !== null || child.signalCode !== null) return "ended";
    hold(child, "ref");
    return child;
  }

  /** Without a session the process ends with its input, and until then it must not keep Pi alive. */
  giveUp(): void {
    this.#child?.stdin?.end();
    this.#child = undefined;
  }
}

function hold(child: ChildProcess, how: Holding): void {
  child[how]();
  // The pipes are sockets, which their type does not say.
  for (const pipe of [child.stdin, child.stdout, child.stderr]) (pipe as Socket | null)?.[how]();
}
