/** Where Pi enters: the service's process begins to load first, and the rest of the extension beside it. */

import { fileURLToPath } from "node:url";
import type { ExtensionAPI } from "@earendil-works/pi-coding-agent";
import { EarlyStart } from "./early.ts";

export default async function projectMemory(pi: ExtensionAPI): Promise<void> {
  const directory = fileURLToPath(new URL(".", import.meta.url));
  const early = new EarlyStart(directory);
  const { register } = await import("./extension.ts");
  register(pi, directory, early);
}
