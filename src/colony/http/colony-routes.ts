/** The colony's HTTP routes: tools, captures, recordings, commands and MCP. */

import { CoralError } from "../../base/errors.ts";
import type { Logger } from "../../base/log.ts";
import {
  type CaptureEvent,
  type ColonyBackend,
  colonyTools,
  findTool,
  listTools,
  type Permission,
  permissions,
  permits,
  startCapture,
  type Tool,
  type ToolCallContext,
} from "../../tools/index.ts";
import {
  type Authorize,
  commandServiceRoute,
  createHttpRoutes,
  type HttpHandler,
  isLoopbackUrl,
  type Principal,
  type Route,
  type RouteContext,
} from "../../transport/index.ts";
import type { Commands } from "../commands/commands.ts";
import type { ColonyMetrics } from "../core/colony-metrics.ts";

export interface ColonyRoutesOptions {
  backend: ColonyBackend;
  commands: Pick<Commands, "serve" | "refused">;
  authorize: Authorize;
  metrics: ColonyMetrics;
  notReady: () => string | undefined;
  version: string;
  log: Logger;
}

export function createColonyRoutes(options: ColonyRoutesOptions): HttpHandler {
  const call = createToolCaller(options);
  return createHttpRoutes({
    routes: [...toolRoutes(call), captureRoute(options), recordingRoute(options), commandRoute(options), mcpRoute(options, call)],
    authorize: options.authorize,
    notReady: options.notReady,
    metrics: () => options.metrics.registry.text(),
    log: options.log,
  });
}

type CallTool = ReturnType<typeof createToolCaller>;

/** Calls a tool, counts the call, and logs a failure. */
function createToolCaller({ backend, metrics, log }: ColonyRoutesOptions) {
  return async (tool: Tool<ColonyBackend>, input: unknown, principal: Principal | undefined, about: CallContext) => {
    try {
      const result = await tool.call(backend, input, { ...about, ...callerOf(principal) });
      metrics.toolCalls.inc(1, { tool: tool.name, outcome: "ok" });
      return result;
    } catch (error) {
      const problem = CoralError.from(error);
      metrics.toolCalls.inc(1, { tool: tool.name, outcome: problem.code });
      log.debug(`Tool ${tool.name} failed: ${problem.message}`, { caller: principal?.name, code: problem.code });
      throw problem;
    }
  };
}

function toolRoutes(call: CallTool): Route[] {
  return [
    {
      kind: "json",
      method: "GET",
      path: "/v1/tools",
      permission: "read",
      handle: async (context) => ({ kind: "json", value: { tools: listTools(colonyTools, await strongestPermission(context)) } }),
    },
    {
      kind: "json",
      method: "POST",
      path: "/v1/tools/:name",
      permission: "read",
      handle: async (context) => {
        const tool = findTool(colonyTools, context.params["name"] ?? "", "admin");
        if (isModel(context) && permits(tool.permission, "admin"))
          throw new CoralError({
            code: "not-permitted",
            message: `Cannot call ${tool.name}: models cannot decide approvals, read the audit or manage tokens and agents; a person can, with the CLI`,
          });
        const principal = await context.authorize(tool.permission);
        return { kind: "json", value: await call(tool, context.body ?? {}, principal, about(context)) };
      },
    },
  ];
}

function captureRoute({ backend, metrics }: ColonyRoutesOptions): Route {
  return {
    kind: "web",
    methods: ["POST"],
    path: "/v1/captures",
    permission: "debug",
    handle: async (request, context) => {
      const events = await startCapture(backend, await jsonOf(request), { ...about(context), ...callerOf(context.principal) });
      metrics.toolCalls.inc(1, { tool: "coral_capture_requests", outcome: "ok" });
      return new Response(ndjsonOf(events), { headers: { "content-type": "application/x-ndjson" } });
    },
  };
}

function recordingRoute({ backend }: ColonyRoutesOptions): Route {
  return {
    kind: "web",
    methods: ["POST"],
    path: "/v1/recordings",
    permission: "admin",
    handle: async (request, context) => {
      const parts = backend.recording(recordingIn(await jsonOf(request)), { ...about(context), ...callerOf(context.principal) });
      return new Response(await startedStream(parts), { headers: { "content-type": "application/x-asciicast" } });
    },
  };
}

function commandRoute({ backend, commands }: ColonyRoutesOptions): Route {
  const callerOf = ({ principal, from }: RouteContext) => ({ name: principal?.name ?? "", from });
  return commandServiceRoute({
    serve: (call, context) => commands.serve(call, backend, callerOf(context)),
    refused: (order, context) => commands.refused(order, callerOf(context)),
  });
}

function mcpRoute({ version }: ColonyRoutesOptions, call: CallTool): Route {
  return {
    kind: "web",
    methods: ["GET", "POST", "DELETE"],
    path: "/mcp",
    permission: "read",
    handle: async (request, context) => {
      refuseForeignOrigin(request);
      const permission = await strongestPermission(context);
      // The protocol's library takes several megabytes of heap, and most colonies are never asked by an assistant.
      const { handleMcpRequest } = await import("../../mcp/index.ts");
      return await handleMcpRequest(request, {
        tools: colonyTools.filter((tool) => isOfferedByMcp(tool, permission)),
        version,
        call: (tool, input, signal) =>
          call(tool, input, context.principal, { ...mcpContext(context), signal: AbortSignal.any([signal, context.signal]) }),
      });
    },
  };
}

/** Rejects foreign Origins, as the MCP specification requires: a web page must not reach a colony through a browser (DNS rebinding). */
function refuseForeignOrigin({ headers }: Request): void {
  const origin = headers.get("origin");
  if (origin === null || isLoopbackUrl(origin)) return;
  throw new CoralError({
    code: "not-permitted",
    message: `Cannot serve MCP: origin "${origin.slice(0, 200)}" is not allowed`,
  });
}

/** The client declared itself a model. MCP over HTTP does not list these tools at all. */
function isModel({ through: { client } }: RouteContext): boolean {
  return client === "mcp" || client === "llm";
}

type CallContext = Omit<ToolCallContext, "caller">;

function about({ signal, from, through: { client, questionId } }: RouteContext): CallContext {
  return { signal, from, through: client, ...(questionId === "" ? {} : { questionId }) };
}

/** `llm` for a client that sent a conversation id, else `mcp`. */
function mcpContext(context: RouteContext): CallContext {
  const call = about(context);
  return call.through === "llm" ? call : { ...call, through: "mcp" };
}

/** MCP offers read-only tools, and commands if the caller may run them: those are bounded, audited, and read-only by default. */
function isOfferedByMcp(tool: Tool<ColonyBackend>, permission: Permission): boolean {
  return tool.permission === "read" || (tool.name === "coral_agent_exec" && permits(permission, tool.permission));
}

function callerOf(principal: Principal | undefined): { caller?: string } {
  return principal === undefined ? {} : { caller: principal.name };
}

/** Reads a JSON body as JSON routes do. The content type is required: web pages can send others across origins. */
async function jsonOf(request: Request): Promise<unknown> {
  if (!/^application\/json\b/i.test(request.headers.get("content-type") ?? ""))
    throw new CoralError({ code: "invalid", message: 'Cannot read the request: the content type must be "application/json"' });
  try {
    return await request.json();
  } catch (error) {
    throw new CoralError({ code: "invalid", message: "Cannot read the request: its body is not valid JSON", cause: error });
  }
}

/** Streams events as lines of JSON; a failure is the last line. Cancelling the stream ends the source. */
function ndjsonOf(events: AsyncIterable<CaptureEvent>): ReadableStream<Uint8Array> {
  const iterator = events[Symbol.asyncIterator]();
  const encoder = new TextEncoder();
  const lineOf = (value: unknown): Uint8Array => encoder.encode(`${JSON.stringify(value)}\n`);
  return new ReadableStream<Uint8Array>(
    {
      pull: async (controller) => {
        try {
          const next = await iterator.next();
          if (next.done) controller.close();
          else controller.enqueue(lineOf(next.value));
        } catch (error) {
          const { code, message, details } = CoralError.from(error);
          controller.enqueue(lineOf({ kind: "error", error: { code, message, details } }));
          controller.close();
        }
      },
      cancel: async () => {
        await iterator.return?.();
      },
    },
    { highWaterMark: 1 },
  );
}

function recordingIn(body: unknown): { agentId: string; recording: string } {
  const { agentId, recording } = (typeof body === "object" && body !== null ? body : {}) as Record<string, unknown>;
  if (typeof agentId !== "string" || typeof recording !== "string" || agentId === "" || recording === "")
    throw new CoralError({ code: "invalid", message: "Cannot read the recording: the request needs agentId and recording" });
  return { agentId, recording };
}

/** Waits for the first part, so that an early failure gets an error status instead of a broken stream. */
async function startedStream(parts: AsyncIterable<Uint8Array>): Promise<ReadableStream<Uint8Array>> {
  const iterator = parts[Symbol.asyncIterator]();
  let next: IteratorResult<Uint8Array> | undefined = await iterator.next();
  return new ReadableStream<Uint8Array>(
    {
      pull: async (controller) => {
        const part = next ?? (await iterator.next());
        next = undefined;
        if (part.done) controller.close();
        else controller.enqueue(part.value);
      },
      cancel: async () => {
        await iterator.return?.();
      },
    },
    { highWaterMark: 1 },
  );
}

/** The caller's strongest permission, to list only tools that it may call. */
async function strongestPermission(context: RouteContext): Promise<Permission> {
  for (const permission of [...permissions].reverse()) {
    try {
      await context.authorize(permission);
      return permission;
    } catch (error) {
      // Try the next weaker one. `read` was granted before the route ran.
      if (CoralError.from(error).code !== "not-permitted") throw error;
    }
  }
  return "read";
}
