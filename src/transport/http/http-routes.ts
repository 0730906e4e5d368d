/** A daemon's endpoints, the same on its unix socket, on loopback HTTP and on the TLS port. The only place that authorises requests. */

import {
  ConnectError,
  type ConnectRouter,
  createContextKey,
  createContextValues,
  type HandlerContext,
  type Interceptor,
} from "@connectrpc/connect";
import { background } from "../../base/background.ts";
import { CoralError } from "../../base/errors.ts";
import type { Logger } from "../../base/log.ts";
import type { Caller } from "../trust/caller.ts";
import { readBody } from "./http-body.ts";
import { type HttpHandler, type HttpRequest, type HttpResponse, jsonValue, sendBody, sendError } from "./http-handler.ts";
import { liftRequestTimeout } from "./http-servers.ts";
import { toDetailedConnectError } from "./rpc-errors.ts";
import { createRpcHandler, type RpcHandler } from "./rpc-handler.ts";
import { sendWebResponse, webRequestOf } from "./web-request.ts";

/** The permission that a tool or endpoint requires; tools declare the same ones. */
export type Permission = "read" | "debug" | "exec" | "admin";

/** `public`: open to everyone (health only). `local`: open on this machine, `read` from elsewhere. */
export type RoutePermission = "public" | "local" | Permission;

/** An authorised caller; `name` is for the audit: `local:uid=1000`, `token:abc`, `agent:x`. */
export interface Principal {
  name: string;
}

/** Returns who the caller is, or throws CoralError `unauthenticated` or `not-permitted`. */
export type Authorize = (caller: Caller, permission: Permission) => Principal | Promise<Principal>;

/** What a handler knows about its request. The caller is already authorised for the route's permission. */
export interface RouteContext {
  caller: Caller;
  /** Undefined on public routes. */
  principal: Principal | undefined;
  /** Origin of the request, for the audit: `socket pid=42`, `10.0.0.7:50123`. */
  from: string;
  /** What the caller claims to be, for the audit; `llm` has the id of the user's question. */
  through: { client: "cli" | "mcp" | "http" | "llm"; questionId: string };
  /** Values of `:name` parts of the path, decoded. */
  params: Readonly<Record<string, string>>;
  query: URLSearchParams;
  /** Aborted when the caller disconnects before the reply is sent. */
  signal: AbortSignal;
  /** For permissions that depend on the request, such as a tool's own. */
  authorize: (permission: Permission) => Promise<Principal>;
}

/** The context of a JSON route. */
export interface JsonRouteContext extends RouteContext {
  /** The parsed body; undefined without one. */
  body: unknown;
}

export type JsonReply =
  | { kind: "json"; status?: number; value: unknown }
  | { kind: "text"; status?: number; text: string; contentType?: string };

export type Route =
  | {
      kind: "json";
      method: "GET" | "POST" | "DELETE";
      /** `/v1/tools/:name`. */
      path: string;
      permission: RoutePermission;
      handle: (context: JsonRouteContext) => JsonReply | Promise<JsonReply>;
    }
  /** For handlers with the web's Request and Response (MCP). The body is read first; the reply may stream. */
  | {
      kind: "web";
      methods: readonly string[];
      path: string;
      permission: RoutePermission;
      handle: (request: Request, context: RouteContext) => Promise<Response>;
    }
  /** A Connect service. `permission` applies to all its methods; a handler gets its RouteContext from routeContextOf(). */
  | {
      kind: "rpc";
      permission: RoutePermission;
      register: (router: ConnectRouter) => void;
    };

type PathRoute = Exclude<Route, { kind: "rpc" }>;
type RpcRoute = Extract<Route, { kind: "rpc" }>;

export interface HttpRoutesOptions {
  routes: Route[];
  authorize: Authorize;
  /** For `/readyz`: undefined when ready, otherwise the reason. */
  notReady: () => string | undefined;
  /** For `/metrics`: Prometheus text. */
  metrics: () => Promise<string>;
  log: Logger;
  /** Default 4 MiB. */
  maxBodyBytes?: number;
  /** For the body to arrive. Default 30 s. */
  bodyTimeoutMs?: number;
}

/** Adds `GET /healthz`, `/readyz` (public) and `/metrics` (local) to `routes`; any other path gets a 404 in the same error form. */
export function createHttpRoutes(options: HttpRoutesOptions): HttpHandler {
  const all = [...ownRoutes(options), ...options.routes];
  const routes = all.flatMap((route) => (route.kind === "rpc" ? [] : [{ route, segments: route.path.split("/") }]));
  const limits = { maxBodyBytes: options.maxBodyBytes ?? 4 * 1024 * 1024, bodyTimeoutMs: options.bodyTimeoutMs ?? 30_000 };
  const rpcs = all.flatMap((route) => (route.kind === "rpc" ? [rpcHandlerOf(route, options.log, limits.maxBodyBytes)] : []));

  const serve = async (request: HttpRequest, response: HttpResponse, transportCaller: Caller): Promise<void> => {
    const url = urlOf(request);
    const caller = withBearer(transportCaller, request);
    const authorize = async (permission: Permission): Promise<Principal> => options.authorize(caller, permission);
    const open = async (permission: RoutePermission, params: Record<string, string>, signal: AbortSignal): Promise<RouteContext> => {
      const principal = await principalOf(permission, caller, authorize);
      const origin = { from: originOf(request, caller), through: throughOf(request) };
      return { caller, principal, ...origin, params, query: url.searchParams, authorize, signal };
    };
    const openCall: OpenCall = async (permission, signal) => {
      const context = await open(permission, {}, signal);
      liftRequestTimeout(request);
      return context;
    };
    if (rpcs.some((handle) => handle(request, response, createContextValues().set(openCallKey, openCall)))) return;
    const { route, params } = findRoute(routes, request, response, url);
    // Before the body is read: a caller without permission must not use memory.
    const context = await open(route.permission, params, disconnectSignal(response));
    const body = await readBody(request, limits.maxBodyBytes, limits.bodyTimeoutMs);
    if (route.kind === "web")
      await sendWebResponse(response, await route.handle(webRequestOf(request, url, body, context.signal), context));
    else sendReply(response, await route.handle({ ...context, body: parseJson(request, body) }));
  };

  return (request, response, caller) => {
    background(
      options.log,
      "Serving an HTTP request",
      serve(request, response, caller).catch((error: unknown) => fail(request, response, error, options.log)),
    );
  };
}

/** Authorises the caller of an RPC. */
type OpenCall = (permission: RoutePermission, signal: AbortSignal) => Promise<RouteContext>;

const openCallKey = createContextKey<OpenCall | undefined>(undefined);
const routeContextKey = createContextKey<RouteContext | undefined>(undefined);

/** For handlers of a route of kind `rpc`. */
export function routeContextOf({ values }: Pick<HandlerContext, "values">): RouteContext {
  const context = values.get(routeContextKey);
  if (!context) throw new CoralError({ code: "internal", message: "Cannot serve the call: it was not authorised" });
  return context;
}

/** Authorises every call by an interceptor, before any message of it is read. */
function rpcHandlerOf({ permission, register }: RpcRoute, log: Logger, maxBodyBytes: number): RpcHandler {
  const authorizeCall: Interceptor = (next) => async (request) => {
    const open = request.contextValues.get(openCallKey);
    if (!open) throw new CoralError({ code: "internal", message: "Cannot serve the call: its caller is unknown" });
    request.contextValues.set(routeContextKey, await open(permission, request.signal));
    return next(request);
  };
  return createRpcHandler({
    routes: register,
    maxBodyBytes,
    interceptors: [authorizeCall],
    toWire: (error) =>
      error instanceof ConnectError
        ? error
        : toDetailedConnectError(shownError(error, (cause) => log.error("rpc failed", { error: cause }))),
    log,
  });
}

/** Throws `not-found` for an unknown path, and a 405 with an `allow` header for a known path with another method. */
function findRoute(
  routes: readonly { route: PathRoute; segments: string[] }[],
  request: HttpRequest,
  response: HttpResponse,
  { pathname }: URL,
): { route: PathRoute; params: Record<string, string> } {
  const matching = routes.flatMap(({ route, segments }) => {
    const params = matchPath(segments, pathname);
    return params ? [{ route, params }] : [];
  });
  const found = matching.find(({ route }) => methodsOf(route).includes(request.method ?? ""));
  if (found) return found;
  if (matching.length === 0)
    throw new CoralError({ code: "not-found", message: `Cannot serve ${request.method} "${pathname}": no such endpoint` });
  response.setHeader("allow", matching.flatMap(({ route }) => methodsOf(route)).join(", "));
  throw new CoralError({
    code: "invalid",
    message: `Cannot serve ${request.method} "${pathname}": method not allowed`,
    details: { status: 405 },
  });
}

/** Endpoints that every daemon has. */
function ownRoutes(options: HttpRoutesOptions): Route[] {
  const get = (path: string, permission: RoutePermission, handle: () => JsonReply | Promise<JsonReply>): Route => ({
    kind: "json",
    method: "GET",
    path,
    permission,
    handle,
  });
  return [
    get("/healthz", "public", () => ({ kind: "json", value: { status: "ok" } })),
    get("/readyz", "public", () => {
      const reason = options.notReady();
      return reason === undefined
        ? { kind: "json", value: { status: "ready" } }
        : { kind: "json", status: 503, value: { status: "not ready", reason } };
    }),
    get("/metrics", "local", async () => ({
      kind: "text",
      text: await options.metrics(),
      contentType: "text/plain; version=0.0.4; charset=utf-8",
    })),
  ];
}

function methodsOf(route: PathRoute): readonly string[] {
  return route.kind === "json" ? [route.method] : route.methods;
}

async function principalOf(
  permission: RoutePermission,
  caller: Caller,
  authorize: (permission: Permission) => Promise<Principal>,
): Promise<Principal | undefined> {
  if (permission === "public") return undefined;
  if (permission !== "local") return authorize(permission);
  const isHere = caller.kind === "local" || ("loopback" in caller && caller.loopback);
  return isHere ? undefined : authorize("read");
}

function originOf(request: HttpRequest, caller: Caller): string {
  if (caller.kind === "local") return `socket pid=${caller.pid}`;
  const { remoteAddress, remotePort } = request.socket;
  return remoteAddress === undefined ? "gone" : `${remoteAddress}:${remotePort}`;
}

/** A token replaces a missing or refused certificate, never a valid one. */
function withBearer(caller: Caller, request: HttpRequest): Caller {
  if (caller.kind !== "anonymous" && caller.kind !== "refused") return caller;
  const token = /^Bearer +(\S+)$/i.exec(request.headers.authorization ?? "")?.[1];
  return token === undefined ? caller : { kind: "bearer", token, loopback: caller.loopback };
}

/** Claimed by the caller: useful to search the audit, but no proof. */
function throughOf({ headers }: HttpRequest): RouteContext["through"] {
  const questionId = String(headers["coral-question"] ?? "");
  if (/^[\w-]{1,64}$/.test(questionId)) return { client: "llm", questionId };
  const client = headers["coral-client"];
  return { client: client === "cli" || client === "mcp" ? client : "http", questionId: "" };
}

function urlOf(request: HttpRequest): URL {
  const target = request.url ?? "";
  // Only the origin form is served; "//x" would be parsed as a host name.
  if (!/^\/(?!\/)/.test(target) || !URL.canParse(target, "http://localhost")) {
    throw new CoralError({ code: "invalid", message: "Cannot serve the request: its target is not a path" });
  }
  return new URL(target, "http://localhost");
}

/** Decoded parameters if the path matches. An encoded slash stays within its part. */
function matchPath(segments: string[], pathname: string): Record<string, string> | undefined {
  const parts = pathname.split("/");
  if (parts.length !== segments.length) return undefined;
  const params: Record<string, string> = {};
  for (const [index, segment] of segments.entries()) {
    const part = parts[index] ?? "";
    if (!segment.startsWith(":")) {
      if (segment !== part) return undefined;
      continue;
    }
    try {
      params[segment.slice(1)] = decodeURIComponent(part);
    } catch {
      // A malformed escape matches nothing.
      return undefined;
    }
  }
  return params;
}

function parseJson(request: HttpRequest, body: Buffer): unknown {
  if (body.length === 0) return undefined;
  // Web pages may send other content types across origins without a preflight, but not JSON.
  if (!/^application\/json\b/i.test(request.headers["content-type"] ?? "")) {
    throw new CoralError({ code: "invalid", message: 'Cannot read the request: the content type must be "application/json"' });
  }
  try {
    return JSON.parse(body.toString("utf8"));
  } catch (error) {
    throw new CoralError({ code: "invalid", message: "Cannot read the request: its body is not valid JSON", cause: error });
  }
}

function disconnectSignal(response: HttpResponse): AbortSignal {
  const controller = new AbortController();
  response.once("close", () => {
    if (!response.writableFinished) controller.abort(new CoralError({ code: "cancelled", message: "the caller disconnected" }));
  });
  return controller.signal;
}

function sendReply(response: HttpResponse, reply: JsonReply): void {
  if (reply.kind === "json") sendBody(response, reply.status ?? 200, "application/json", JSON.stringify(reply.value, jsonValue));
  else sendBody(response, reply.status ?? 200, reply.contentType ?? "text/plain; charset=utf-8", reply.text);
}

/** CoralErrors are sent to the caller; anything else is a bug, and is only logged. */
function shownError(error: unknown, onBug: (error: unknown) => void): CoralError {
  if (error instanceof CoralError) return error;
  onBug(error);
  return new CoralError({ code: "internal", message: "Cannot serve the request: internal error; see the daemon's log" });
}

function fail(request: HttpRequest, response: HttpResponse, error: unknown, log: Logger): void {
  const shown = shownError(error, (cause) =>
    log.error("http request failed", { method: request.method, path: request.url?.split("?", 1)[0], error: cause }),
  );
  if (response.headersSent) response.destroy();
  else sendError(response, shown, { closeConnection: !request.complete });
}
