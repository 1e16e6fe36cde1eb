/** Real time under mocked timers, and small waits on it. */

const realSetTimeout = globalThis.setTimeout;
const POLL_MS = 5;
const BOUND_MS = 20_000;

/** Resolves when `condition` holds, looking again and again in real time whatever the mocked clock says. */
export async function until(condition: () => boolean, what: string): Promise<void> {
  for (let waited = 0; !condition(); waited += POLL_MS) {
    if (waited > BOUND_MS) throw new Error(`gave up waiting for ${what}`);
    await new Promise((resolve) => realSetTimeout(resolve, POLL_MS));
  }
}

/** Lets everything run that needs neither time nor input. */
export const settle = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));
