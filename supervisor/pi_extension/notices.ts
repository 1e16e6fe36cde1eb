/** Shows texts where each mode of Pi has a place for them: its own notices, or else standard error. */

import type { ExtensionContext } from "@earendil-works/pi-coding-agent";
import type { Level } from "./types.ts";

const STATUS_KEY = "project-memory";

export class Notices {
  readonly #ui: ExtensionContext["ui"];
  /** Whether Pi shows notices; print and json mode drop them. */
  readonly visible: boolean;
  #hasStatus = false;

  constructor(ctx: ExtensionContext) {
    this.#ui = ctx.ui;
    this.visible = ctx.mode === "tui" || ctx.mode === "rpc";
  }

  show(level: Level, text: string): void {
    if (this.visible) this.#ui.notify(text, level);
    else this.print(text);
  }

  /** Sets the status line, or takes it away again with null. */
  status(text: string | null): void {
    if (!this.visible || (text === null && !this.#hasStatus)) return;
    this.#hasStatus = text !== null;
    this.#ui.setStatus(STATUS_KEY, text ?? undefined);
  }

  /** Standard output belongs to Pi in every mode. */
  print(text: string): void {
    process.stderr.write(`${text}\n`);
  }
}
