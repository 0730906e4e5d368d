/** The JSON endpoints, once for all three doors: unix socket, loopback HTTP and the TLS port. Authorisation happens here and nowhere else. */

import { CoralError } from "../base/errors.ts";
import type { Logger } from "../base/log.ts";
import type { Caller } from "./caller.ts";
import type { HttpHandler } from "./colony-server.ts";

/** `public` needs no authorisation: health only. The others are the tools' permissions. */
export type RoutePermission = "public" | "read" | "debug" | "exec" | "admin";

/** Whom `authorize` has let in; `name` is for the audit: `local:uid=1000`, `token:abc`, `agent:x`. */
export interface Principal {
  name: string;
}

/** The one decision: throws CoralError `unauthenticated` or `not-permitted`, or says who it is. Never called for `public`. */
export type Authorize = (caller: Caller, permission: Exclude<RoutePermission, "public">) => Principal | Promise<Principal>;

export interface RouteContext {
  caller: Caller;
  /** Undefined on public routes. */
  principal: Principal | undefined;
  /** Values of `:name` parts of the path, decoded. */
  params: Readonly<Record<string, string>>;
  query: URLSearchParams;
  /** Aborted when the caller goes away or the daemon closes. */
  signal: AbortSignal;
  /** For permissions that depend on the request, such as a tool's own. */
  authorize(permission: Exclude<RoutePermission, "public">): Promise<Principal>;
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
  /** For handlers written against the web's Request and Response (MCP), also streaming. */
  | {
      kind: "web";
      methods: readonly string[];
      path: string;
      permission: RoutePermission;
      handle: (request: Request, context: RouteContext) => Promise<Response>;
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

/** Adds `GET /healthz`, `/readyz` and `/metrics` (all public) to `routes` and answers everything else with 404 in the same error form. */
export function createHttpRoutes(_options: HttpRoutesOptions): HttpHandler {
  throw new CoralError({ code: "internal", message: "not built" });
}
