/** Checks what the service asks with, field by field, before it is believed. */

import { Code, RpcError } from "./errors.ts";

type Kind = "text" | "list" | "object";

const CHECKS: Record<Kind, (value: unknown) => boolean> = {
  text: (value) => typeof value === "string",
  list: Array.isArray,
  object: (value) => typeof value === "object" && value !== null && !Array.isArray(value),
};

/** Returns `params` as T; an RpcError names the first field of `shape` that is missing or of another kind. */
export function readParams<T>(params: unknown, shape: Partial<Record<keyof T & string, Kind>>): T {
  if (!CHECKS.object(params)) throw new RpcError(Code.invalidParams, "the parameters are not an object");
  for (const [name, kind] of Object.entries(shape) as [string, Kind][]) {
    if (!CHECKS[kind]((params as Record<string, unknown>)[name])) {
      throw new RpcError(Code.invalidParams, `${name} must be ${kind === "object" ? "an object" : `a ${kind}`}`);
    }
  }
  return params as T;
}
