/** The requests and replies of all our HTTP servers, whichever version they speak. */

import type { IncomingMessage, ServerResponse } from "node:http";
import type { Http2ServerRequest, Http2ServerResponse } from "node:http2";
import { type CoralError, httpStatusOf } from "../../base/errors.ts";
import type { Caller } from "../trust/caller.ts";
import type { Upgrade } from "./http-upgrade.ts";

export type HttpRequest = IncomingMessage | Http2ServerRequest;
export type HttpResponse = ServerResponse | Http2ServerResponse;

/** Answers a request that is no RPC, or takes over its connection. Must not throw; see createHttpRoutes(). */
export type HttpHandler = (request: HttpRequest, response: HttpResponse, caller: Caller, upgrade?: Upgrade) => void;

export interface SendErrorOptions {
  /** When the request was not read to its end: HTTP/1.1 cannot go on with the next one, HTTP/2 ends the stream. */
  closeConnection?: boolean;
}

/** The one form of failure on every JSON endpoint: `{ "error": { code, message, details } }`. */
export function sendError(response: HttpResponse, error: CoralError, options: SendErrorOptions = {}): void {
  const { code, message, details } = error;
  const isHttp2 = "stream" in response;
  if (options.closeConnection && !isHttp2 && !response.headersSent) response.setHeader("connection", "close");
  sendBody(response, statusOf(error), "application/json", JSON.stringify({ error: { code, message, details } }, jsonValue));
  if (options.closeConnection && isHttp2) {
    // What is under way has to be read, or its share of the connection's flow-control window would be lost for later requests.
    response.req.resume();
    // Waits for the reply to be out, then tells the client to stop sending.
    response.stream.close();
  }
}

/** Two cases that HTTP can say better than our codes. */
function statusOf(error: CoralError): number {
  if (error.details["status"] === 405) return 405;
  if (error.details["maxBytes"] !== undefined) return 413;
  return httpStatusOf(error.code);
}

export function sendBody(response: HttpResponse, status: number, contentType: string, body: string): void {
  if (response.headersSent || response.writableEnded || response.destroyed) return;
  const bytes = Buffer.from(body);
  // The two response types have overloads that no union can call.
  const out = response as ServerResponse;
  out.writeHead(status, { "content-type": contentType, "content-length": bytes.length, "cache-control": "no-store" });
  out.end(bytes);
}

/** JSON has no bigint; sequences and counters fit a text. */
export function jsonValue(_key: string, value: unknown): unknown {
  return typeof value === "bigint" ? value.toString() : value;
}
