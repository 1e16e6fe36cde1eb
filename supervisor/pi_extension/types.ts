/** The payloads of the wire, as docs/protocol.md lists them. */

export const PROTOCOL_VERSION = 1;

export type JsonObject = Record<string, unknown>;
export type Level = "info" | "warning" | "error";
export type Thinking = "off" | "minimal" | "low" | "medium" | "high" | "xhigh" | "max";
export type StartReason = "startup" | "reload" | "new" | "resume" | "fork";
export type ShutdownReason = "quit" | "reload" | "new" | "resume" | "fork";

/** The session's own codemode; the budget is in tokens. */
export interface CodemodeSettings {
  active: boolean;
  mode: "on" | "only";
  inlineBudget: number;
}

/** The end of the active branch: `length` entries can be asked for under `handle`. */
export interface HistoryHead {
  handle: string;
  length: number;
}

/** Window and output limit are in tokens. */
export interface ModelInfo {
  provider: string;
  id: string;
  api: string;
  reasoning: boolean;
  contextWindow: number;
  maxTokens: number;
}

export interface RunContext {
  history: HistoryHead;
  trusted: boolean;
  model: ModelInfo | null;
  thinkingLevel: Thinking | null;
}

export interface Initialize extends RunContext {
  protocolVersion: number;
  host: { name: string; version: string };
  mode: "tui" | "rpc" | "json" | "print";
  agentDir: string;
  cwd: string;
  session: {
    id: string;
    directory: string;
    usesDefaultDirectory: boolean;
    reason: StartReason;
    restarted: boolean;
  };
  capabilities: { notify: boolean; status: boolean };
  tools: JsonObject[];
  codemode: CodemodeSettings;
}

export interface Initialized {
  protocolVersion: number;
  service: { name: string; version: string; pid: number };
  logFile: string | null;
  toolResultEvents: string[];
}

export interface BeforeAgentStart {
  context: RunContext;
  messageType: "user" | "custom";
  prompt: string | null;
  withinMs: number;
}

export interface PromptSection {
  name: string;
  text: string;
}

export interface HiddenMessage {
  customType: string;
  content: string;
  details?: JsonObject | null;
  display?: boolean;
}

export interface AgentStartAnswer {
  section?: PromptSection | null;
  message?: HiddenMessage | null;
  /** Memory could not say yet: the section that there is stays. */
  pending?: boolean;
}

export interface ToolResult {
  toolName: string;
  toolCallId: string;
  input: JsonObject;
  isError: boolean;
  truncated: boolean;
  hasImage: boolean;
  nested: boolean;
}

export interface CommandAnswer {
  text: string;
  level?: Level;
}

export interface Completion {
  value: string;
  label: string;
  description: string;
}

export interface ModelQuery {
  thinkingLevel: Thinking;
  provider?: string | null;
  modelId?: string | null;
}

export interface ResolvedModel {
  status: "ok" | "no_active_model" | "not_found" | "no_credentials";
  model: ModelInfo | null;
  thinkingLevel: Thinking;
}

/** Options that are left out are left to Pi; `timeoutMs` is in milliseconds. */
export interface RequestOptions {
  maxTokens?: number | null;
  reasoning?: Thinking | null;
  cacheRetention?: "none" | "short" | "long" | null;
  sessionId?: string | null;
  disableContinuation?: boolean;
  timeoutMs?: number | null;
  maxRetries?: number | null;
  transport?: "sse" | null;
}

export interface ModelRequest {
  provider: string;
  modelId: string;
  messages: JsonObject[];
  options?: RequestOptions;
  systemPrompt?: string | null;
  tools?: JsonObject[];
  payloadPatch?: JsonObject | null;
  parent?: string | null;
}

export interface ModelAnswer {
  message: unknown;
  httpStatus: number | null;
}

/** The main agent's request that is kept under `handle`, as it was last sent. */
export interface ParentSnapshot {
  handle: string;
  requested: boolean;
  systemText: string;
  model: ModelInfo | null;
  section: string | null;
  tools: JsonObject[];
  hiddenTools: string[];
  forcedPrompt: boolean;
  imagesBlocked: boolean;
  codemode: CodemodeSettings;
}

export interface ToolInvocation {
  callId: string;
  tool: string;
  arguments: JsonObject;
  cwd: string;
  /** The result's form for programs is wanted too. */
  structured?: boolean;
}

export interface ToolOutcome {
  content: JsonObject[];
  details: JsonObject | null;
  isError: boolean;
  structuredContent?: unknown;
}

/** Codemode in this mode, for scripts that may call these file tools. */
export interface CodemodeWanted {
  mode: "on" | "only";
  inlineBudget: number;
  tools: string[];
}

/** How codemode is declared, and what that makes of the other tools' declarations. */
export interface CodemodeLoadout {
  declaration: JsonObject;
  descriptions: Record<string, string>;
  hiddenTools: string[];
}

/** What a script has put into its store, in the form in which a session would keep it. */
export interface StoreEntry {
  customType: string;
  data: JsonObject;
}

/** One script; `stored` is what the earlier ones of its run have stored. */
export interface Script extends CodemodeWanted {
  callId: string;
  arguments: unknown;
  stored: StoreEntry[];
}

export interface ScriptOutcome extends ToolOutcome {
  stored: StoreEntry[];
}

/** One call of the script `scriptId`. */
export interface ScriptCall {
  scriptId: string;
  callId: string;
  tool: string;
  arguments: unknown;
}

/** `data` is base64; `code` an errno name such as ENOENT. */
export interface OperationResult {
  data?: string;
  answer?: boolean;
  error?: { code: string; message: string };
}
