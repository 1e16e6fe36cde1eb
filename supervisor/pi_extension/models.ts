/** Model requests on the service's behalf, through Pi's registry and its credentials. */

import type { Api, AssistantMessageEventStream, Context, Message, Model, ModelThinkingLevel } from "@earendil-works/pi-ai";
import type { ModelRegistry } from "@earendil-works/pi-coding-agent";
import { Code, RpcError } from "./errors.ts";
import type { ParentRequests } from "./parent.ts";
import { modelInfo } from "./snapshots.ts";
import type { JsonObject, ModelAnswer, ModelQuery, ModelRequest, RequestOptions, ResolvedModel } from "./types.ts";

export type Registry = Pick<ModelRegistry, "find" | "hasConfiguredAuth" | "streamSimple">;
type StreamOptions = NonNullable<Parameters<Registry["streamSimple"]>[2]>;

/** Pi's models as they are at the moment of a request. */
export interface Models {
  active(): Model<Api> | undefined;
  registry(): Registry;
  clampThinkingLevel(model: Model<Api>, level: ModelThinkingLevel): ModelThinkingLevel;
}

/** Finds a model without falling back to another one. */
export function resolveModel(models: Models, query: ModelQuery): ResolvedModel {
  const named = query.provider != null && query.modelId != null;
  const model = named ? models.registry().find(query.provider!, query.modelId!) : models.active();
  if (!model) return unresolved(named ? "not_found" : "no_active_model");
  if (!models.registry().hasConfiguredAuth(model)) return unresolved("no_credentials");
  const thinkingLevel = models.clampThinkingLevel(model, query.thinkingLevel);
  return { status: "ok", model: modelInfo(model), thinkingLevel };
}

function unresolved(status: ResolvedModel["status"]): ResolvedModel {
  return { status, model: null, thinkingLevel: "off" };
}

/** Runs one request to its end. The provider's own failures are in the answer; `signal` aborts the request. */
export async function streamModel(
  models: Models,
  parents: Pick<ParentRequests, "messages">,
  request: ModelRequest,
  signal: AbortSignal,
): Promise<ModelAnswer> {
  const { provider, modelId } = request;
  const model = models.registry().find(provider, modelId);
  if (!model) throw new RpcError(Code.invalidParams, `modelId: Pi knows no model ${provider}/${modelId}`);
  let httpStatus: number | null = null;
  const seen = (status: number): void => {
    httpStatus = status;
  };
  const options = { ...requestOptions(request.options ?? {}), ...observers(request.payloadPatch, seen), signal };
  const prefix = request.parent == null ? [] : parents.messages(request.parent);
  const message = await stream(models, model, prefix, request, options).result();
  return { message, httpStatus };
}

function stream(
  models: Models,
  model: Model<Api>,
  prefix: Message[],
  { systemPrompt, messages, tools }: ModelRequest,
  options: StreamOptions,
): AssistantMessageEventStream {
  const context = { messages: [...prefix, ...messages], ...(systemPrompt != null && { systemPrompt }), ...(tools?.length && { tools }) };
  // The service builds messages and tools in Pi's own shapes; the registry checks what it needs of them.
  return models.registry().streamSimple(model, context as unknown as Context, options);
}

/** What the service leaves open is left to Pi; Pi spells "off" by leaving the level out. */
function requestOptions({ reasoning, ...others }: RequestOptions): StreamOptions {
  const given = Object.entries(others).filter(([, value]) => value !== null && value !== undefined);
  return { ...Object.fromEntries(given), ...(reasoning != null && reasoning !== "off" && { reasoning }) };
}

/** Each API reports its status in one of two places; no API takes a schema but through its payload. */
function observers(patch: JsonObject | null | undefined, seen: (status: number) => void): StreamOptions {
  return {
    fetch: async (input, init) => {
      const response = await fetch(input, init);
      seen(response.status);
      return response;
    },
    onResponse: (response) => seen(response.status),
    ...(patch && { onPayload: (payload: unknown) => mergePayload(payload as JsonObject, patch) }),
  };
}

/** Objects are merged key by key, everything else is replaced. */
export function mergePayload(payload: JsonObject, patch: JsonObject): JsonObject {
  const merged = { ...payload };
  for (const [key, value] of Object.entries(patch)) {
    const old = merged[key];
    merged[key] = isObject(old) && isObject(value) ? mergePayload(old, value) : value;
  }
  return merged;
}

function isObject(value: unknown): value is JsonObject {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}
