/** The main agent's own request, kept so that a background run can continue it without sending it over. */

import type { Message } from "@earendil-works/pi-ai";
import { Code, RpcError } from "./errors.ts";
import { sectionText } from "./snapshots.ts";
import type { CodemodeSettings, JsonObject, ModelInfo, ParentSnapshot } from "./types.ts";

/** What Pi says of the session's next request. */
export interface Projection {
  messages: Message[];
  systemText: string;
  /** The memory section as it was rendered, if the transcript holds one. */
  section: string | undefined;
  tools: JsonObject[];
}

/** What is set in the session as it stands. */
export interface Standing {
  imagesBlocked: boolean;
  codemode: CodemodeSettings;
}

/** What was seen of the last request and of the run that sent it. */
export interface Sent {
  model: ModelInfo | null;
  hiddenTools: string[];
  forcedPrompt: boolean;
}

export class ParentRequests {
  readonly #project: () => Projection;
  readonly #standing: () => Standing;
  readonly #sectionName: string;
  readonly #kept = new Map<string, Message[]>();
  #sent: Sent | undefined;
  #run: Omit<Sent, "model"> = { hiddenTools: [], forcedPrompt: false };
  #handles = 0;

  constructor(project: () => Projection, standing: () => Standing, sectionName: string) {
    this.#project = project;
    this.#standing = standing;
    this.#sectionName = sectionName;
  }

  /** A run begins whose requests will be made like this. */
  runBegins(run: Omit<Sent, "model">): void {
    this.#run = run;
  }

  /** The main agent sends a request to this model. */
  requestSent(model: ModelInfo | null): void {
    this.#sent = { ...this.#run, model };
  }

  capture(): ParentSnapshot {
    const { messages, systemText, section, tools } = this.#project();
    const { model = null, hiddenTools = [], forcedPrompt = false } = this.#sent ?? {};
    this.#handles += 1;
    const handle = `p${this.#handles}`;
    this.#kept.set(handle, withoutHidden(messages, hiddenTools));
    return {
      handle,
      requested: this.#sent !== undefined,
      systemText,
      model,
      section: section === undefined ? null : sectionText(this.#sectionName, section),
      tools,
      hiddenTools,
      forcedPrompt,
      ...this.#standing(),
    };
  }

  release(handle: string): void {
    this.#kept.delete(handle);
  }

  /** The messages of a kept request; an RpcError for a handle that names none. */
  messages(handle: string): Message[] {
    const messages = this.#kept.get(handle);
    if (!messages) throw new RpcError(Code.invalidParams, `parent: no request is kept as ${handle}`);
    return messages;
  }
}

/** Pi leaves hidden tools out of its requests only on the way to the provider. */
function withoutHidden(messages: Message[], hidden: string[]): Message[] {
  if (hidden.length === 0) return messages;
  return messages.map((message) => {
    const { toolsAdded } = message as { toolsAdded?: { name: string }[] };
    if (!toolsAdded) return message;
    return { ...message, toolsAdded: toolsAdded.filter((tool) => !hidden.includes(tool.name)) } as Message;
  });
}
