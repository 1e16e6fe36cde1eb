/** JSON-RPC 2.0 in both directions over frames, with cancellation and a bound on every wait. */

import { CancelledError, Code, messageOf, OverdueError, RpcError } from "./errors.ts";
import { encodeFrame, FrameSplitter } from "./frames.ts";
import { type Id, type Message, readError, readId, readMessage } from "./messages.ts";

export interface Handlers {
  requests: Record<string, (params: unknown, signal: AbortSignal) => unknown>;
  notifications: Record<string, (params: unknown) => void>;
}

export interface Wait {
  boundMs: number;
  signal?: AbortSignal | undefined;
}

interface Pending {
  resolve(result: unknown): void;
  reject(error: Error): void;
}

export interface PeerOptions {
  write(frame: Buffer): void;
  handlers: Handlers;
  /** Called each time a request has found no answer within its bound. */
  onOverdue?(): void;
}

export class Peer {
  readonly #options: PeerOptions;
  readonly #splitter = new FrameSplitter();
  readonly #pending = new Map<Id, Pending>();
  readonly #running = new Map<Id, AbortController>();
  #lastId = 0;
  #closed: Error | undefined;

  constructor(options: PeerOptions) {
    this.#options = options;
  }

  /** Sends a request. Rejects with the other side's RpcError, OverdueError, CancelledError or why the pipe closed. */
  request(method: string, params: object, wait: Wait): Promise<unknown> {
    const refusal = this.#closed ?? (wait.signal?.aborted ? cancelledError(method) : undefined);
    if (refusal) return Promise.reject(refusal);
    const id = ++this.#lastId;
    const { promise, resolve, reject } = Promise.withResolvers<unknown>();
    this.#pending.set(id, { resolve, reject });
    const disarm = arm(method, wait, (error) => this.#giveUp(id, error));
    try {
      this.#send({ id, method, params });
    } catch (error) {
      reject(error);
    }
    return promise.finally(() => {
      disarm();
      this.#pending.delete(id);
    });
  }

  notify(method: string, params: object): void {
    this.#send({ method, params });
  }

  receive(chunk: Buffer): void {
    for (const frame of this.#splitter.push(chunk)) {
      if (this.#closed) return;
      try {
        this.#dispatch(readMessage(frame));
      } catch (error) {
        this.#answerError(null, error);
      }
    }
  }

  /** Ends the conversation: every wait of ours is rejected with `reason`, every request of theirs is aborted. */
  close(reason: Error): void {
    if (this.#closed) return;
    this.#closed = reason;
    for (const pending of [...this.#pending.values()]) pending.reject(reason);
    for (const controller of this.#running.values()) controller.abort(reason);
  }

  #giveUp(id: number, error: Error): void {
    this.#pending.get(id)?.reject(error);
    this.notify("$/cancel", { id });
    if (error instanceof OverdueError) this.#options.onOverdue?.();
  }

  #dispatch(message: Message): void {
    const { method, id, params } = message;
    if (typeof method === "string") {
      if (id === undefined) this.#notified(method, params);
      else this.#requested(readId(id), method, params);
    } else if (method === undefined && ("result" in message || "error" in message)) {
      this.#answered(message);
    } else {
      throw new RpcError(Code.invalidRequest, "neither a request nor an answer");
    }
  }

  #answered(message: Message): void {
    const pending = this.#pending.get(message.id as Id);
    // An answer that nobody waits for any more is late, not wrong.
    if (!pending) return;
    if (message.error === undefined || message.error === null) pending.resolve(message.result);
    else pending.reject(readError(message.error));
  }

  #notified(method: string, params: unknown): void {
    if (method === "$/cancel") {
      const id = (params as { id?: Id } | undefined)?.id;
      if (id !== undefined) this.#running.get(id)?.abort(new CancelledError("cancelled by the service"));
      return;
    }
    find(this.#options.handlers.notifications, method)(params);
  }

  #requested(id: Id, method: string, params: unknown): void {
    if (this.#running.has(id)) {
      this.#answerError(null, new RpcError(Code.invalidRequest, `request ${id} is still being answered`));
      return;
    }
    void this.#perform(id, method, params);
  }

  async #perform(id: Id, method: string, params: unknown): Promise<void> {
    const controller = new AbortController();
    this.#running.set(id, controller);
    try {
      const result = await find(this.#options.handlers.requests, method)(params, controller.signal);
      if (controller.signal.aborted) throw new RpcError(Code.cancelled, `${method} was cancelled`);
      this.#send({ id, result: result ?? {} });
    } catch (error) {
      this.#answerError(id, controller.signal.aborted ? new RpcError(Code.cancelled, messageOf(error)) : error);
    } finally {
      this.#running.delete(id);
    }
  }

  #answerError(id: Id | null, error: unknown): void {
    const code = error instanceof RpcError ? error.code : Code.internal;
    this.#send({ id, error: { code, message: messageOf(error) } });
  }

  #send(message: Message): void {
    if (this.#closed) return;
    this.#options.write(encodeFrame({ jsonrpc: "2.0", ...message }));
  }
}

/** Calls `onEnd` when the bound passes or the caller's signal aborts; returns what takes both back. */
function arm(method: string, { boundMs, signal }: Wait, onEnd: (error: Error) => void): () => void {
  const overdue = (): void => onEnd(new OverdueError(`no answer to ${method} within ${boundMs / 1000} s`));
  const cancelled = (): void => onEnd(cancelledError(method));
  const timer = setTimeout(overdue, boundMs);
  signal?.addEventListener("abort", cancelled);
  return () => {
    clearTimeout(timer);
    signal?.removeEventListener("abort", cancelled);
  };
}

function cancelledError(method: string): CancelledError {
  return new CancelledError(`${method} was cancelled`);
}

function find<T>(table: Record<string, T>, method: string): T {
  const handler = Object.hasOwn(table, method) ? table[method] : undefined;
  if (!handler) throw new RpcError(Code.unknownMethod, `unknown method ${method}`);
  return handler;
}
