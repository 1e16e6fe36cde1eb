/** The way from a session to its service, or to the reason why there is none. */

import type { EarlyStart } from "./early.ts";
import { messageOf } from "./errors.ts";
import { readLaunch } from "./launch.ts";
import type { Handlers } from "./peer.ts";
import { type Hooks, type Service, Supervision, UnavailableError } from "./supervision.ts";

/** Stands in where no service can be started. */
class NoService implements Service {
  readonly toolResultEvents = [];
  readonly #reason: string;

  constructor(reason: string) {
    this.#reason = reason;
  }

  request(): Promise<unknown> {
    return Promise.reject(new UnavailableError(this.#reason));
  }

  operation(): Promise<unknown> {
    return this.request();
  }

  notify(): void {}

  async shutdown(): Promise<void> {}
}

/** Starts the service that the launch.json in `directory` names, or takes the one that was; without one, memory is off. */
export function connect(directory: string, handlers: Handlers, hooks: Hooks, early?: EarlyStart): Service {
  try {
    const supervision = new Supervision(readLaunch(directory), handlers, hooks);
    supervision.start(false, early?.take());
    return supervision;
  } catch (error) {
    const reason = `memory is off for this session: ${messageOf(error)}`;
    hooks.warn(`Project ${reason}`);
    return new NoService(reason);
  }
}
