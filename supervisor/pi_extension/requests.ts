/** What the service may ask of Pi. */

import type { ExtensionAPI } from "@earendil-works/pi-coding-agent";
import { type AskCall, type Codemode, codemodeLoadout, runScript } from "./codemode.ts";
import type { History } from "./history.ts";
import { type Models, resolveModel, streamModel } from "./models.ts";
import type { Notices } from "./notices.ts";
import { readParams } from "./params.ts";
import type { ParentRequests } from "./parent.ts";
import type { Handlers } from "./peer.ts";
import { type AskOperation, executeTool, type NativeTools } from "./tools.ts";
import type {
  CodemodeWanted,
  HiddenMessage,
  JsonObject,
  Level,
  ModelQuery,
  ModelRequest,
  Script,
  ToolInvocation,
} from "./types.ts";

export interface Offer {
  pi: Pick<ExtensionAPI, "appendEntry" | "sendMessage">;
  models: Models;
  history: History;
  parents: Pick<ParentRequests, "capture" | "release" | "messages">;
  natives: NativeTools;
  ask: AskOperation;
  codemode: Codemode;
  askCall: AskCall;
  notices: Pick<Notices, "show" | "status">;
}

interface HistoryRange {
  handle: unknown;
  start: unknown;
  stop: unknown;
  types?: unknown;
}

export function handlersFor(offer: Offer): Handlers {
  const { pi, models, history, parents, natives, codemode, notices } = offer;
  return {
    requests: {
      "model/resolve": (params) =>
        resolveModel(models, readParams<ModelQuery>(params, { thinkingLevel: "text" })),
      "model/stream": (params, signal) => {
        const shape = { provider: "text", modelId: "text", messages: "list" } as const;
        return streamModel(models, parents, readParams<ModelRequest>(params, shape), signal);
      },
      "history/read": (params) => {
        const { handle, start, stop, types } = readParams<HistoryRange>(params, { handle: "text" });
        return { entries: history.slice(handle, start, stop, types) };
      },
      "entry/append": (params) => {
        type Appended = { customType: string; data: JsonObject };
        const { customType, data } = readParams<Appended>(params, { customType: "text", data: "object" });
        pi.appendEntry(customType, data);
      },
      "parent/capture": () => parents.capture(),
      "parent/release": (params) => parents.release(readParams<{ handle: string }>(params, { handle: "text" }).handle),
      "tools/execute": (params, signal) => {
        const shape = { callId: "text", tool: "text", arguments: "object", cwd: "text" } as const;
        return executeTool(natives, readParams<ToolInvocation>(params, shape), offer.ask, signal);
      },
      "codemode/loadout": (params) => {
        const shape = { mode: "text", tools: "list" } as const;
        return codemodeLoadout(codemode, natives, readParams<CodemodeWanted>(params, shape));
      },
      "codemode/run": (params, signal) => {
        const shape = { callId: "text", mode: "text", tools: "list", stored: "list" } as const;
        return runScript(codemode, natives, readParams<Script>(params, shape), offer.askCall, signal);
      },
      "message/send": (params) =>
        sendHidden(pi, readParams<HiddenMessage>(params, { customType: "text", content: "text" })),
    },
    notifications: {
      "ui/notify": (params) => {
        const { level, text } = readParams<{ level: Level; text: string }>(params, { level: "text", text: "text" });
        notices.show(level, text);
      },
      "ui/status": (params) => notices.status(readParams<{ text: string | null }>(params, {}).text),
    },
  };
}

export function toCustomMessage({ customType, content, display, details }: HiddenMessage) {
  return { customType, content, display: display ?? false, ...(details != null && { details }) };
}

/** Reaches the next model call of the running run if there is one; a plain steer would force one more. */
function sendHidden(pi: Offer["pi"], message: HiddenMessage): void {
  pi.sendMessage(toCustomMessage(message), { deliverAs: "steer", triggerTurn: false });
}
