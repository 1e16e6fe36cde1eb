/** What can go wrong with a request, on either side. */

export const Code = {
  parse: -32700,
  invalidRequest: -32600,
  unknownMethod: -32601,
  invalidParams: -32602,
  internal: -32603,
  cancelled: -32800,
  otherVersion: -32001,
  staleHistory: -32002,
} as const;

/** An error that crosses the wire with its code. */
export class RpcError extends Error {
  readonly code: number;

  constructor(code: number, message: string) {
    super(message);
    this.code = code;
  }
}

/** No answer came within the bound; the request has been cancelled at the other side. */
export class OverdueError extends Error {}

/** The caller's own signal ended the wait. */
export class CancelledError extends Error {}

export function asError(error: unknown): Error {
  return error instanceof Error ? error : new Error(String(error));
}

export function messageOf(error: unknown): string {
  return asError(error).message;
}
