/** Serves a ConnectRouter on node's HTTP servers. Unlike the stock adapter it cannot throw into the event loop: bad bytes get a 400. */

import type { ServerResponse } from "node:http";
import type { Http2ServerResponse } from "node:http2";
import { Code, ConnectError, type ConnectRouter, type ContextValues, createConnectRouter, type Interceptor } from "@connectrpc/connect";
import type { UniversalHandler } from "@connectrpc/connect/protocol";
import { universalRequestFromNodeRequest, universalResponseToNodeResponse } from "@connectrpc/connect-node";
import type { Logger } from "../../base/log.ts";
import type { HttpRequest, HttpResponse } from "./http-handler.ts";
import { coralErrorsOnWire } from "./rpc-errors.ts";

export interface RpcHandlerOptions {
  routes: (router: ConnectRouter) => void;
  /** Of one message. */
  maxBodyBytes: number;
  interceptors?: Interceptor[];
  log: Logger;
}

/** False when the path is no RPC; otherwise the request is taken care of. */
export type RpcHandler = (request: HttpRequest, response: HttpResponse, values: ContextValues) => boolean;

export function createRpcHandler(options: RpcHandlerOptions): RpcHandler {
  const router = createConnectRouter({
    grpc: false,
    grpcWeb: false,
    readMaxBytes: options.maxBodyBytes,
    // None is needed, and without it no small body can unpack into a large one.
    acceptCompression: [],
    interceptors: [...(options.interceptors ?? []), coralErrorsOnWire],
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
    // Throws for an authority that is no URL.
    const universal = universalRequestFromNodeRequest(request, response as ServerResponse & Http2ServerResponse, undefined, values);
    await universalResponseToNodeResponse(await handler(universal), response);
  } catch (error) {
    const code = ConnectError.from(error).code;
    if (code !== Code.Aborted && code !== Code.Canceled) log.warn("rpc failed", { rpc: handler.requestPath, error });
    // The caller is gone, or has sent something that is no request.
    if (response.headersSent) response.destroy();
    else response.writeHead(400).end();
  }
}
