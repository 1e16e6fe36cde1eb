/** Starts the service as launch.json beside this file says, which was written at installation. */

import { type ChildProcess, spawn } from "node:child_process";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { messageOf } from "./errors.ts";

export interface Launch {
  command: [string, ...string[]];
  logFile: string;
  /** The working folder of the service: never the project, whose files Python could import by accident. */
  directory: string;
}

/** Throws an Error that names the file and the remedy. */
export function readLaunch(directory: string): Launch {
  const path = join(directory, "launch.json");
  try {
    return { ...checked(JSON.parse(readFileSync(path, "utf8"))), directory };
  } catch (error) {
    throw new Error(`${path} cannot be used: ${messageOf(error)}. Run: pi-project-memory install`);
  }
}

function checked(value: unknown): Omit<Launch, "directory"> {
  const { command, logFile } = (value ?? {}) as Record<string, unknown>;
  if (!isCommand(command)) throw new Error("\"command\" must be a list of texts that starts with a program");
  if (typeof logFile !== "string") throw new Error("\"logFile\" must be a path");
  return { command, logFile };
}

function isCommand(value: unknown): value is [string, ...string[]] {
  return Array.isArray(value) && value.length > 0 && value.every((word) => typeof word === "string");
}

export function spawnService({ command: [program, ...args], directory }: Launch): ChildProcess {
  return spawn(program, args, { cwd: directory, detached: true, stdio: "pipe", windowsHide: true });
}
