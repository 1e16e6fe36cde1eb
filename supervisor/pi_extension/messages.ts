/** Reads frames as JSON-RPC messages; what cannot be read is an RpcError. */

import { Code, messageOf, RpcError } from "./errors.ts";
import type { Frame } from "./frames.ts";

export type Id = string | number;
export type Message = Record<string, unknown>;

const decoder = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });

export function readMessage(frame: Frame): Message {
  if (frame === "oversized") throw new RpcError(Code.parse, "the frame is over the limit");
  const value = parse(frame);
  if (typeof value !== "object" || value === null || Array.isArray(value)) {
    throw new RpcError(Code.invalidRequest, "the frame is not a JSON object");
  }
  return value as Message;
}

function parse(frame: Buffer): unknown {
  try {
    return JSON.parse(decoder.decode(frame));
  } catch (error) {
    throw new RpcError(Code.parse, `the frame is not JSON in UTF-8: ${messageOf(error)}`);
  }
}

export function readId(id: unknown): Id {
  if (typeof id === "string" || Number.isSafeInteger(id)) return id as Id;
  throw new RpcError(Code.invalidRequest, "the id is neither an integer nor a string");
}

export function readError(error: unknown): RpcError {
  const { code, message } = error as { code?: unknown; message?: unknown };
  return new RpcError(typeof code === "number" ? code : Code.internal, String(message ?? "error without a text"));
}
