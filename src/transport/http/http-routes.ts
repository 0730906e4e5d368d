/** The JSON endpoints, once for all three doors: unix socket, loopback HTTP and the TLS port. Authorisation happens here and nowhere else. */

import type { ServerResponse } from "node:http";
import { background } from "../../base/background.ts";
import { CoralError } from "../../base/errors.ts";
import type { Logger } from "../../base/log.ts";
import { createFrameStream, type FrameStream, framesProtocol } from "../commands/frame-stream.ts";
import type { Caller } from "../trust/caller.ts";
import { readBody } from "./http-body.ts";
import { type HttpHandler, type HttpRequest, type HttpResponse, jsonValue, sendBody, sendError } from "./http-handler.ts";
import { completeUpgrade, type Upgrade } from "./http-upgrade.ts";
import { sendWebResponse, webRequestOf } from "./web-request.ts";

/** What a tool or endpoint asks of its caller; the same words as the tools' own. */
export type Permission = "read" | "debug" | "exec" | "admin";

/** `public` is open to everyone (health only), `local` to everyone on this machine and as `read` from elsewhere. */
export type RoutePermission = "public" | "local" | Permission;

/** Whom `authorize` has let in; `name` is for the audit: `local:uid=1000`, `token:abc`, `agent:x`. */
export interface Principal {
  name: string;
}

/** The one decision: throws CoralError `unauthenticated` or `not-permitted`, or says who it is. */
export type Authorize = (caller: Caller, permission: Permission) => Principal | Promise<Principal>;

export interface RouteContext {
  caller: Caller;
  /** Undefined on public routes. */
  principal: Principal | undefined;
  /** Where the request comes from, for the audit: `socket pid=42`, `10.0.0.7:50123`. */
  from: string;
  /** What the caller says it is, for the audit; `llm` with the id of the question that a model works on. */
  through: { client: "cli" | "http" | "llm"; questionId: string };
  /** Values of `:name` parts of the path, decoded. */
  params: Readonly<Record<string, string>>;
  query: URLSearchParams;
  /** Aborted when the caller goes away before the reply is out. */
  signal: AbortSignal;
  /** For permissions that depend on the request, such as a tool's own. */
  authorize: (permission: Permission) => Promise<Principal>;
}

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
  /** For handlers written against the web's Request and Response (MCP). The body is read before; the reply may stream. */
  | {
      kind: "web";
      methods: readonly string[];
      path: string;
      permission: RoutePermission;
      handle: (request: Request, context: RouteContext) => Promise<Response>;
    }
  /**
   * `POST` with `Upgrade: coral-frames/1`: bytes in both directions. Refusals before the upgrade are replies as everywhere; the connection is
   * closed when `handle` has ended, and what it throws is the last control frame: `{ "kind": "error", "error": … }`.
   */
  | {
      kind: "frames";
      path: string;
      permission: RoutePermission;
      handle: (frames: FrameStream, context: RouteContext) => Promise<void>;
    };

export interface HttpRoutesOptions {
  routes: Route[];
  authorize: Authorize;
  /** `/readyz`: undefined when ready, otherwise why not. */
  notReady: () => string | undefined;
  /** `/metrics`, Prometheus text. */
  metrics: () => Promise<string>;
  log: Logger;
  /** Default 4 MiB. */
  maxBodyBytes?: number;
  /** For the body to arrive. Default 30 s. */
  bodyTimeoutMs?: number;
}

/** Adds `GET /healthz`, `/readyz` (public) and `/metrics` (local) to `routes`, and answers everything else with 404 in the same error form. */
export function createHttpRoutes(options: HttpRoutesOptions): HttpHandler {
  const routes = [...ownRoutes(options), ...options.routes].map((route) => ({ route, segments: route.path.split("/") }));
  const limits = { maxBodyBytes: options.maxBodyBytes ?? 4 * 1024 * 1024, bodyTimeoutMs: options.bodyTimeoutMs ?? 30_000 };

  const answer = async (request: HttpRequest, response: HttpResponse, transportCaller: Caller, upgrade?: Upgrade): Promise<void> => {
    const url = urlOf(request);
    const matching = routes.flatMap(({ route, segments }) => {
      const params = matchPath(segments, url.pathname);
      return params ? [{ route, params }] : [];
    });
    if (matching.length === 0)
      throw new CoralError({ code: "not-found", message: `Cannot answer ${request.method} "${url.pathname}": there is no such endpoint` });
    const found = matching.find(({ route }) => methodsOf(route).includes(request.method ?? ""));
    if (!found) {
      response.setHeader("allow", matching.flatMap(({ route }) => methodsOf(route)).join(", "));
      throw new CoralError({
        code: "invalid",
        message: `Cannot answer ${request.method} "${url.pathname}": the method is not allowed`,
        details: { status: 405 },
      });
    }
    const { route, params } = found;
    const caller = withBearer(transportCaller, request);
    const authorize = async (permission: Permission): Promise<Principal> => options.authorize(caller, permission);
    // Before the body is read: whoever may not call does not get to fill our memory either.
    const principal = await principalOf(route.permission, caller, authorize);
    const origin = { from: originOf(request, caller), through: throughOf(request) };
    const about = { caller, principal, ...origin, params, query: url.searchParams, authorize };
    if (route.kind === "frames") {
      await serveFrames(response, upgrade, (frames) => route.handle(frames, { ...about, signal: frames.signal }), options.log);
      return;
    }
    if (upgrade) throw new CoralError({ code: "invalid", message: `Cannot answer "${url.pathname}": it has no ${framesProtocol}` });
    const context: RouteContext = { ...about, signal: hangUpSignal(response) };
    const body = await readBody(request, limits.maxBodyBytes, limits.bodyTimeoutMs);
    if (route.kind === "web")
      await sendWebResponse(response, await route.handle(webRequestOf(request, url, body, context.signal), context));
    else sendReply(response, await route.handle({ ...context, body: parseJson(request, body) }));
  };

  return (request, response, caller, upgrade) => {
    background(
      options.log,
      "http request",
      answer(request, response, caller, upgrade).catch((error: unknown) => fail(request, response, error, options.log)),
    );
  };
}

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

function methodsOf(route: Route): readonly string[] {
  if (route.kind === "frames") return ["POST"];
  return route.kind === "json" ? [route.method] : route.methods;
}

async function serveFrames(
  response: HttpResponse,
  upgrade: Upgrade | undefined,
  handle: (frames: FrameStream) => Promise<void>,
  log: Logger,
): Promise<void> {
  if (!upgrade) {
    throw new CoralError({
      code: "invalid",
      message: `Cannot answer: the request must have the headers "Upgrade: ${framesProtocol}" and "Connection: Upgrade"`,
    });
  }
  completeUpgrade(response as ServerResponse, upgrade.socket);
  await using frames = createFrameStream(upgrade.socket, upgrade.head);
  try {
    await handle(frames);
  } catch (error) {
    const { code, message, details } = shownError(error, (cause) => log.error("frames failed", { error: cause }));
    await frames.send({ kind: "control", value: { kind: "error", error: { code, message, details } } });
  }
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

/** A token stands in for a missing or refused certificate, never for a good one. */
function withBearer(caller: Caller, request: HttpRequest): Caller {
  if (caller.kind !== "anonymous" && caller.kind !== "refused") return caller;
  const token = /^Bearer +(\S+)$/i.exec(request.headers.authorization ?? "")?.[1];
  return token === undefined ? caller : { kind: "bearer", token, loopback: caller.loopback };
}

/** Told by the caller itself: it helps to find things in the audit, and proves nothing. */
function throughOf({ headers }: HttpRequest): RouteContext["through"] {
  const questionId = String(headers["coral-question"] ?? "");
  if (/^[\w-]{1,64}$/.test(questionId)) return { client: "llm", questionId };
  return { client: headers["coral-client"] === "cli" ? "cli" : "http", questionId: "" };
}

function urlOf(request: HttpRequest): URL {
  const target = request.url ?? "";
  // Only the origin form is ours; "//x" would be taken for a host name.
  if (!/^\/(?!\/)/.test(target) || !URL.canParse(target, "http://localhost")) {
    throw new CoralError({ code: "invalid", message: "Cannot answer the request: its target is not a path" });
  }
  return new URL(target, "http://localhost");
}

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
      // A malformed escape is no name of anything.
      return undefined;
    }
  }
  return params;
}

function parseJson(request: HttpRequest, body: Buffer): unknown {
  if (body.length === 0) return undefined;
  // Web pages can send other types across origins without asking; JSON they cannot.
  if (!/^application\/json\b/i.test(request.headers["content-type"] ?? "")) {
    throw new CoralError({ code: "invalid", message: 'Cannot read the request: the content type must be "application/json"' });
  }
  try {
    return JSON.parse(body.toString("utf8"));
  } catch (error) {
    throw new CoralError({ code: "invalid", message: "Cannot read the request: its body is not JSON", cause: error });
  }
}

function hangUpSignal(response: HttpResponse): AbortSignal {
  const controller = new AbortController();
  response.once("close", () => {
    if (!response.writableFinished) controller.abort(new CoralError({ code: "cancelled", message: "the caller hung up" }));
  });
  return controller.signal;
}

function sendReply(response: HttpResponse, reply: JsonReply): void {
  if (reply.kind === "json") sendBody(response, reply.status ?? 200, "application/json", JSON.stringify(reply.value, jsonValue));
  else sendBody(response, reply.status ?? 200, reply.contentType ?? "text/plain; charset=utf-8", reply.text);
}

/** Our own errors are written for the caller; anything else is a bug, whose text belongs in the log only. */
function shownError(error: unknown, onBug: (error: unknown) => void): CoralError {
  if (error instanceof CoralError) return error;
  onBug(error);
  return new CoralError({ code: "internal", message: "Cannot answer the request: internal error; see the daemon's log" });
}

function fail(request: HttpRequest, response: HttpResponse, error: unknown, log: Logger): void {
  const shown = shownError(error, (cause) =>
    log.error("http request failed", { method: request.method, path: request.url?.split("?", 1)[0], error: cause }),
  );
  if (response.headersSent) response.destroy();
  else sendError(response, shown, { closeConnection: !request.complete });
}
