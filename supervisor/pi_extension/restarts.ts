/** How often a service that failed is started again: a decision without effects. */

export const RESTART_LIMIT = 3;
export const RESTART_WINDOW_MS = 5 * 60_000;

export class RestartBudget {
  #spent: number[] = [];

  /** Takes one restart at the time `now`, in milliseconds of any steady clock; false when the window holds no more. */
  take(now: number): boolean {
    this.#spent = this.#spent.filter((at) => now - at < RESTART_WINDOW_MS);
    if (this.#spent.length >= RESTART_LIMIT) return false;
    this.#spent.push(now);
    return true;
  }
}
