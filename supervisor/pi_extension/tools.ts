/** Pi's own file tools for a background run; whatever they do to a file is asked of the service. */

import type { ToolLoadout } from "@earendil-works/pi-coding-agent";
import { Code, messageOf, RpcError } from "./errors.ts";
import type { JsonObject, OperationResult, ToolInvocation, ToolOutcome } from "./types.ts";

/** The part of Pi's tools that is used here. */
export interface NativeTool {
  prepareArguments?: (given: unknown) => unknown;
  execute(
    id: string,
    params: never,
    signal: AbortSignal,
  ): Promise<{ content: unknown; details?: unknown; isError?: boolean; structuredContent?: unknown }>;
}

/** A tool as Pi declares it. */
export type DescribedTool = ToolLoadout["callable"][number];

/** The effects that `read`, `write` and `edit` have on files, as Pi's factories take them. */
export interface FileOperations {
  readFile(path: string): Promise<Buffer>;
  access(path: string): Promise<void>;
  writeFile(path: string, content: string): Promise<void>;
  mkdir(path: string): Promise<void>;
  detectImageMimeType(path: string): Promise<string | null | undefined>;
}

export interface NativeTools {
  make(tool: string, cwd: string, operations: FileOperations): NativeTool | undefined;
  /** The same tool to be looked at, not run. */
  describe(tool: string): DescribedTool | undefined;
  /** Checks and converts arguments as Pi does for its model; throws what the model is told. */
  validate(tool: object, name: string, id: string, given: unknown): unknown;
  detectImageMimeType(path: string): Promise<string | null | undefined>;
}

/** Asks the service for one effect of a call. */
export type AskOperation = (params: JsonObject) => Promise<OperationResult>;

/** Runs one tool to its end; what it throws is the outcome that its model reads. */
export async function executeTool(
  natives: NativeTools,
  { callId, tool: name, arguments: given, cwd, structured }: ToolInvocation,
  ask: AskOperation,
  signal: AbortSignal,
): Promise<ToolOutcome> {
  const tool = natives.make(name, cwd, operationsFor(natives, callId, name, ask));
  if (!tool) throw new RpcError(Code.invalidParams, `tool: Pi has no file tool ${name}`);
  try {
    const prepared = tool.prepareArguments ? tool.prepareArguments(given) : given;
    const params = natives.validate(tool, name, callId, prepared);
    const { content, details, isError, structuredContent } = await tool.execute(callId, params as never, signal);
    return {
      content: content as JsonObject[],
      details: (details as JsonObject) ?? null,
      isError: isError === true,
      ...(structured && structuredContent !== undefined && { structuredContent }),
    };
  } catch (error) {
    return { content: [{ type: "text", text: messageOf(error) }], details: null, isError: true };
  }
}

function operationsFor(natives: NativeTools, callId: string, tool: string, ask: AskOperation): FileOperations {
  const effect = async (operation: string, path: string, more: JsonObject = {}): Promise<OperationResult> => {
    const result = await ask({ callId, operation, path, ...more });
    if (result.error) throw Object.assign(new Error(result.error.message), { code: result.error.code });
    return result;
  };
  return {
    readFile: async (path) => Buffer.from((await effect("readFile", path)).data ?? "", "base64"),
    access: async (path) => void (await effect("access", path, { write: tool === "edit" })),
    writeFile: async (path, content) => {
      await effect("writeFile", path, { data: Buffer.from(content, "utf8").toString("base64") });
    },
    mkdir: async (path) => void (await effect("mkdir", path)),
    detectImageMimeType: (path) => natives.detectImageMimeType(path),
  };
}
