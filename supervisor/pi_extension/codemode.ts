/** Pi's own codemode for a background run: a script reaches the run's tools alone, and each call through the service. */

import type {
  ExecuteToolOptions,
  ExtensionAPI,
  ExtensionToolContext,
  ToolDefinition,
  ToolInfo,
  ToolLoadout,
} from "@earendil-works/pi-coding-agent";
import { Code, messageOf, RpcError } from "./errors.ts";
import type { DescribedTool, NativeTools } from "./tools.ts";
import type {
  CodemodeLoadout,
  CodemodeWanted,
  JsonObject,
  Script,
  ScriptCall,
  ScriptOutcome,
  StoreEntry,
  ToolOutcome,
} from "./types.ts";

type Prepare = NonNullable<ToolDefinition["prepareLoadout"]>;
export type CodemodeTool = Pick<
  ToolDefinition,
  "name" | "description" | "parameters" | "constrainedSampling" | "execute"
> & { prepareLoadout?: Prepare };

/** What Pi's codemode asks of the extension API. */
export type CodemodePi = Pick<ExtensionAPI, "appendEntry" | "getAllTools">;

export interface Codemode {
  /** Makes Pi's codemode tool for one script or loadout; nothing is registered with Pi. */
  make(pi: CodemodePi, wanted: Pick<CodemodeWanted, "mode" | "inlineBudget">): CodemodeTool;
  registered(): ToolInfo[];
}

/** Runs one call of a script in the service, which answers for what the tool did. */
export type AskCall = (call: ScriptCall, signal: AbortSignal | undefined) => Promise<ToolOutcome>;

/** How the tools of a run are to be declared beside codemode, as Pi does it for its main agent. */
export function codemodeLoadout(codemode: Codemode, natives: NativeTools, wanted: CodemodeWanted): CodemodeLoadout {
  const callable = describe(natives, wanted.tools);
  const { tool, registered } = open(codemode, wanted, []);
  const guidelines = new Map(registered.map(({ name, promptGuidelines }) => [name, promptGuidelines ?? []]));
  const own = tool as unknown as DescribedTool;
  const loadout = {
    declared: [...callable, own],
    callable,
    registered: [...callable, own],
    getExposure: (name) => (name === tool.name ? "model-only" : "direct"),
    getNamespace: () => undefined,
    getPromptGuidelines: (name) => guidelines.get(name) ?? [],
  } satisfies ToolLoadout;
  const { descriptions = {}, hiddenDeclarations = [] } = tool.prepareLoadout?.(loadout) ?? {};
  const { name, description, parameters, constrainedSampling } = tool;
  const declaration = { name, description: descriptions[name] ?? description, parameters, constrainedSampling };
  return { declaration, descriptions: { ...descriptions }, hiddenTools: [...hiddenDeclarations] };
}

/** Runs one script to its end; `signal` ends it. What Pi throws is the outcome that the model reads. */
export async function runScript(
  codemode: Codemode,
  natives: NativeTools,
  script: Script,
  ask: AskCall,
  signal: AbortSignal,
): Promise<ScriptOutcome> {
  const stored: StoreEntry[] = [];
  try {
    const { tool } = open(codemode, script, stored);
    const params = natives.validate(tool, tool.name, script.callId, script.arguments);
    const context = scriptContext(natives, script, ask);
    const { content, details, isError } = await tool.execute(script.callId, params as never, signal, undefined, context);
    return { content: content as never, details: (details ?? null) as never, isError: isError === true, stored };
  } catch (error) {
    return { content: [{ type: "text", text: messageOf(error) }], details: null, isError: true, stored };
  }
}

/** Pi's codemode with the run's tools around it; what it would append to the session goes to `stored`. */
function open(codemode: Codemode, { tools, ...wanted }: CodemodeWanted, stored: StoreEntry[]) {
  const registered = codemode.registered().filter(({ name }) => tools.includes(name));
  const appendEntry = (customType: string, data?: unknown) => void stored.push({ customType, data: data as JsonObject });
  return { tool: codemode.make({ appendEntry, getAllTools: () => registered }, wanted), registered };
}

/** All that Pi's codemode looks at in its context; the session it sees holds what the run has stored itself. */
function scriptContext(natives: NativeTools, { callId, tools, stored }: Script, ask: AskCall): ExtensionToolContext {
  let calls = 0;
  const executeTool = async (tool: string, given: unknown, options?: ExecuteToolOptions) => {
    calls += 1;
    const call = { scriptId: callId, callId: `${callId}/${calls}`, tool, arguments: given ?? {} };
    const { content, details, isError, structuredContent } = await ask(call, options?.signal);
    const result = { content, details, ...(structuredContent != null && { structuredContent }) };
    return { toolCall: { type: "toolCall", id: call.callId, name: tool, arguments: call.arguments }, result, isError };
  };
  const branch = stored.map((entry) => ({ type: "custom", ...entry }));
  const context = { tools: describe(natives, tools), executeTool, sessionManager: { getBranch: () => branch } };
  return context as unknown as ExtensionToolContext;
}

function describe(natives: NativeTools, tools: readonly string[]): DescribedTool[] {
  return tools.map((name) => {
    const tool = natives.describe(name);
    if (!tool) throw new RpcError(Code.invalidParams, `tools: Pi has no file tool ${name}`);
    return tool;
  });
}
