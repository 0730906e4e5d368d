/** Serves a ConnectRouter on node's HTTP servers. Unlike Connect's own adapter it never throws into the event loop: malformed requests get a 400. */

import type { ServerResponse } from "node:http";
import type { Http2ServerResponse } from "node:http2";
import { Code, ConnectError, type ConnectRouter, type ContextValues, createConnectRouter, type Interceptor } from "@connectrpc/connect";
import type { UniversalHandler } from "@connectrpc/connect/protocol";
import { universalRequestFromNodeRequest, universalResponseToNodeResponse } from "@connectrpc/connect-node";
import type { Logger } from "../../base/log.ts";
import { type HttpRequest, type HttpResponse, stopSending } from "./http-handler.ts";
import { coralErrorsOnWire, errorsOnWire } from "./rpc-errors.ts";

export interface RpcHandlerOptions {
  routes: (router: ConnectRouter) => void;
  /** Limit of one message. */
  maxBodyBytes: number;
  interceptors?: Interceptor[];
  /** Converts an error of a handler or interceptor for the caller. Default: CoralErrors keep their code and message, others are hidden. */
  toWire?: (error: unknown) => unknown;
  log: Logger;
}

/** False when the path is not an RPC; otherwise the request is served. */
export type RpcHandler = (request: HttpRequest, response: HttpResponse, values: ContextValues) => boolean;

/** Serves the Connect protocol only: no gRPC, no gRPC-Web, no compression. */
export function createRpcHandler(options: RpcHandlerOptions): RpcHandler {
  const router = createConnectRouter({
    grpc: false,
    grpcWeb: false,
    readMaxBytes: options.maxBodyBytes,
    // Without compression a small body cannot expand into a large one.
    acceptCompression: [],
    interceptors: [options.toWire ? errorsOnWire(options.toWire) : coralErrorsOnWire, ...(options.interceptors ?? [])],
  });
  options.routes(router);
  const handlers = new Map<string, UniversalHandler>(router.handlers.map((handler) => [handler.requestPath, handler]));

  return (request, response, values) => {
    const handler = handlers.get(request.url?.split("?", 1)[0] ?? "");
    if (!handler) return false;
    void serve(handler, request, response, values, options.log);
    return true;
  };
}

async function serve(
  handler: UniversalHandler,
  request: HttpRequest,
  response: HttpResponse,
  values: ContextValues,
  log: Logger,
): Promise<void> {
  try {
    // Throws for an authority that is not a valid URL.
    const universal = universalRequestFromNodeRequest(request, response as ServerResponse & Http2ServerResponse, undefined, values);
    await universalResponseToNodeResponse(await handler(universal), response);
    if ("stream" in response && !request.complete) stopSending(response);
  } catch (error) {
    const code = ConnectError.from(error).code;
    if (code !== Code.Aborted && code !== Code.Canceled) log.warn("rpc failed", { rpc: handler.requestPath, error });
    // The caller disconnected, or its request was malformed.
    if (response.headersSent) response.destroy();
    else response.writeHead(400).end();
  }
}
