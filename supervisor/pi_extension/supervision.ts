/** Keeps one service running for a session: handshake, failures, restarts, and an end that leaves nothing behind. */

import type { ChildProcess } from "node:child_process";
import { messageOf, OverdueError } from "./errors.ts";
import type { Launch } from "./launch.ts";
import type { Handlers, Wait } from "./peer.ts";
import { RestartBudget } from "./restarts.ts";
import { ServiceProcess } from "./service.ts";
import { type Initialize, type Initialized, PROTOCOL_VERSION, type ShutdownReason } from "./types.ts";

export const HANDSHAKE_MS = 5_000;
export const SHUTDOWN_MS = 65_000;
/** How long a process may take to end by itself: after its shutdown, and after it has failed. */
export const EXIT_GRACE_MS = 5_000;
export const FAILED_GRACE_MS = 1_500;

/** There is no service to ask; the text says why. */
export class UnavailableError extends Error {}

export interface Hooks {
  /** The handshake's parameters as they are now. */
  initialize(restarted: boolean): Initialize;
  warn(text: string): void;
}

/** What a session needs of the service, whether there is one or not. */
export interface Service {
  /** The tools whose results the service wants to hear of. */
  readonly toolResultEvents: readonly string[];
  /** Asks on behalf of one of Pi's events; the wait ends when the session does, with a CancelledError. */
  request(method: string, params: object, wait: Wait): Promise<unknown>;
  /** Asks on behalf of the service's own work, which goes on while the session ends. */
  operation(method: string, params: object, wait: Wait): Promise<unknown>;
  notify(method: string, params: object): void;
  shutdown(reason: ShutdownReason): Promise<void>;
}

export class Supervision implements Service {
  readonly #launch: Launch;
  readonly #handlers: Handlers;
  readonly #hooks: Hooks;
  readonly #budget = new RestartBudget();
  readonly #ended = new AbortController();
  #service: ServiceProcess | undefined;
  #replacing = Promise.resolve();
  #unavailable = "has not been started";
  /** The service has answered the handshake with an error, and would do so again. */
  #refused = false;
  /** The user knows of this outage: one warning lasts until a handshake succeeds. */
  #warned = false;
  #logFile: string;
  #toolResultEvents: readonly string[] = [];

  constructor(launch: Launch, handlers: Handlers, hooks: Hooks) {
    this.#launch = launch;
    this.#handlers = handlers;
    this.#hooks = hooks;
    this.#logFile = launch.logFile;
  }

  get toolResultEvents(): readonly string[] {
    return this.#toolResultEvents;
  }

  /** Starts the service and returns at once; requests may follow, they queue up behind the handshake. */
  start(restarted = false, early?: ChildProcess | "ended"): void {
    // Node has thrown away what one that has ended said: it is started once more to hear it, at the cost of a restart.
    if (early === "ended") this.#budget.take(performance.now());
    const running = early === "ended" ? undefined : early;
    try {
      const service = new ServiceProcess(this.#launch, this.#handlers, () => this.#failed(service), running);
      this.#service = service;
      void this.#shakeHands(service, restarted);
    } catch (error) {
      this.#unavailable = `could not be started (${messageOf(error)})`;
      this.#hooks.warn(this.#offText());
    }
  }

  request(method: string, params: object, { boundMs, signal }: Wait): Promise<unknown> {
    const signals = signal ? [signal, this.#ended.signal] : [this.#ended.signal];
    return this.operation(method, params, { boundMs, signal: AbortSignal.any(signals) });
  }

  operation(method: string, params: object, wait: Wait): Promise<unknown> {
    if (!this.#service) return Promise.reject(new UnavailableError(`the service ${this.#unavailable}`));
    return this.#service.peer.request(method, params, wait);
  }

  notify(method: string, params: object): void {
    this.#service?.peer.notify(method, params);
  }

  /** Lets the service finish, and ends it. Afterwards no process, timer or pipe is left. */
  async shutdown(reason: ShutdownReason): Promise<void> {
    this.#ended.abort();
    const service = this.#service;
    if (service) {
      await service.peer.request("shutdown", { reason }, { boundMs: SHUTDOWN_MS }).catch((error: unknown) => {
        if (service === this.#service) this.#hooks.warn(`Project memory: ${messageOf(error)}. Log: ${this.#logFile}`);
      });
      this.#service = undefined;
      await service.stop(EXIT_GRACE_MS);
    }
    await this.#replacing;
  }

  async #shakeHands(service: ServiceProcess, restarted: boolean): Promise<void> {
    try {
      const params = this.#hooks.initialize(restarted);
      const answer = readInitialized(await service.peer.request("initialize", params, { boundMs: HANDSHAKE_MS }));
      this.#logFile = answer.logFile ?? this.#logFile;
      this.#toolResultEvents = answer.toolResultEvents;
      this.#warned = false;
    } catch (error) {
      if (service !== this.#service) return;
      this.#refused = !(error instanceof OverdueError);
      service.fail(handshakeFailure(error));
    }
  }

  #failed(service: ServiceProcess): void {
    if (service !== this.#service) return;
    this.#service = undefined;
    this.#unavailable = service.reason;
    this.#replacing = this.#replace(service);
  }

  async #replace(service: ServiceProcess): Promise<void> {
    await service.stop(FAILED_GRACE_MS);
    this.#unavailable = service.reason;
    const ended = this.#ended.signal.aborted;
    if (ended && service.endedWell) return;
    if (this.#refused || !service.started) this.#hooks.warn(this.#offText());
    else if (ended) this.#hooks.warn(this.#awayText("It had not finished its work."));
    else if (this.#budget.take(performance.now())) this.#startAgain();
    else this.#hooks.warn(this.#offText());
  }

  #startAgain(): void {
    if (!this.#warned) this.#hooks.warn(this.#awayText("It is being started again."));
    this.#warned = true;
    this.start(true);
  }

  #awayText(outlook: string): string {
    return `Project memory: the service ${this.#unavailable}. ${outlook} Log: ${this.#logFile}`;
  }

  #offText(): string {
    const remedy = "Run pi-project-memory doctor, then /reload.";
    return `Project memory is off for this session: the service ${this.#unavailable}. ${remedy} Log: ${this.#logFile}`;
  }
}

function readInitialized(value: unknown): Initialized {
  const answer = value as Partial<Initialized> | null;
  const theirs = answer?.protocolVersion;
  if (theirs !== PROTOCOL_VERSION) {
    throw new Error(`it speaks protocol version ${theirs}, this extension ${PROTOCOL_VERSION}`);
  }
  if (!Array.isArray(answer?.toolResultEvents)) throw new Error("its answer lacks toolResultEvents");
  return answer as Initialized;
}

function handshakeFailure(error: unknown): string {
  if (error instanceof OverdueError) return `did not answer the handshake within ${HANDSHAKE_MS / 1_000} s`;
  return `refused the handshake: ${messageOf(error)}`;
}
