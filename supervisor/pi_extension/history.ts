/** The active branch of the session, numbered from its root and named by a handle. */

import { Code, RpcError } from "./errors.ts";
import type { HistoryHead } from "./types.ts";

export interface Entry {
  id: string;
  type?: string;
}

export class History {
  readonly #read: () => readonly Entry[];
  #generation = 1;
  #length = 0;
  #lastId: string | undefined;

  /** `read` gives the entries of the active branch, from its root. */
  constructor(read: () => readonly Entry[]) {
    this.#read = read;
  }

  head(): HistoryHead {
    this.#follow(this.#read());
    return { handle: this.#handle, length: this.#length };
  }

  /** Gives the branch a new handle: what the model sees of it has changed. */
  renew(): HistoryHead {
    this.#generation += 1;
    this.#length = 0;
    return this.head();
  }

  /**
   * Entries `start` to `stop` without image data, of any but the given types the id and type alone; an RpcError
   * for a handle that is no longer the branch's.
   */
  slice(handle: unknown, start: unknown, stop: unknown, types?: unknown): unknown[] {
    const entries = this.#read();
    this.#follow(entries);
    if (handle !== this.#handle) throw new RpcError(Code.staleHistory, `${handle} is not the active branch`);
    const isWanted = filter(types);
    const range = entries.slice(index(start, "start"), index(stop, "stop"));
    return range.map((entry) => (isWanted(entry) ? withoutImageData(entry) : { id: entry.id, type: entry.type }));
  }

  get #handle(): string {
    return `h${this.#generation}`;
  }

  /** A branch that lost or changed an entry it had is another one, whether Pi told of it or not. */
  #follow(entries: readonly Entry[]): void {
    if (this.#length > 0 && entries[this.#length - 1]?.id !== this.#lastId) this.#generation += 1;
    this.#length = entries.length;
    this.#lastId = entries.at(-1)?.id;
  }
}

function index(value: unknown, name: string): number {
  if (Number.isSafeInteger(value) && (value as number) >= 0) return value as number;
  throw new RpcError(Code.invalidParams, `${name} must be a whole number from 0`);
}

function filter(types: unknown): (entry: Entry) => boolean {
  if (types == null) return () => true;
  if (Array.isArray(types)) return ({ type }) => types.includes(type);
  throw new RpcError(Code.invalidParams, "types must be a list");
}

function withoutImageData(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(withoutImageData);
  if (typeof value !== "object" || value === null) return value;
  const { type, mimeType } = value as Record<string, unknown>;
  if (type === "image") return { type, mimeType };
  return Object.fromEntries(Object.entries(value).map(([key, inner]) => [key, withoutImageData(inner)]));
}
