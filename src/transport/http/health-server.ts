/** An agent's HTTP port: plain HTTP/1.1 with /healthz, /readyz and /metrics. Everything else is on the unix socket. */

import { createServer } from "node:http";
import { CoralError } from "../../base/errors.ts";
import type { Logger } from "../../base/log.ts";
import { isLoopbackAddress } from "../trust/endpoint.ts";
import { type HttpHandler, sendError } from "./http-handler.ts";
import { listen } from "./listen.ts";
import { loopbackProblem } from "./loopback-guard.ts";
import { limitConnections } from "./waiting-connections.ts";

/** Health probes and scrapers are few. Above it, the connection that has waited longest is closed. */
const maxConnections = 64;

export interface HealthServerOptions {
  host: string;
  /** 0 picks a free one. */
  port: number;
  /** How many following ports to try if the port is in use. */
  portSearch: number;
  http: HttpHandler;
  log: Logger;
}

/** A listening port. Disposing it closes all connections at once. */
export interface HealthServer extends AsyncDisposable {
  host: string;
  port: number;
}

/** Rejects if no port can be opened. */
export async function startHealthServer(options: HealthServerOptions): Promise<HealthServer> {
  const { host, http, log } = options;
  const server = createServer({ maxHeaderSize: 16 * 1024, headersTimeout: 10_000, requestTimeout: 10_000, keepAliveTimeout: 5_000 });
  limitConnections(server, maxConnections);
  server.on("request", (request, response) => {
    const loopback = isLoopbackAddress(request.socket.remoteAddress ?? "");
    const problem = loopback ? loopbackProblem(request) : undefined;
    if (problem === undefined) http(request, response, { kind: "anonymous", loopback });
    else sendError(response, new CoralError({ code: "not-permitted", message: `Cannot serve the request: ${problem}` }));
  });
  const port = await listen(server, host, options.port, options.portSearch);
  server.on("error", (error) => log.error("cannot accept connections", { error }));
  let closing: Promise<void> | undefined;
  const close = (): Promise<void> => {
    closing ??= new Promise((resolve) => {
      server.close(() => resolve());
      server.closeAllConnections();
    });
    return closing;
  };
  return { host, port, [Symbol.asyncDispose]: close };
}
