/** Requests and replies of the HTTP servers, the same for HTTP/1.1 and HTTP/2. */

import type { IncomingMessage, ServerResponse } from "node:http";
import type { Http2ServerRequest, Http2ServerResponse } from "node:http2";
import { type CoralError, httpStatusOf } from "../../base/errors.ts";
import type { Caller } from "../trust/caller.ts";

export type HttpRequest = IncomingMessage | Http2ServerRequest;
export type HttpResponse = ServerResponse | Http2ServerResponse;

/** Serves a request. Must not throw; see createHttpRoutes(). */
export type HttpHandler = (request: HttpRequest, response: HttpResponse, caller: Caller) => void;

export interface SendErrorOptions {
  /** For a request that was not read completely: HTTP/1.1 closes the connection, HTTP/2 the stream. */
  closeConnection?: boolean;
}

/** The error reply of every JSON endpoint: `{ "error": { code, message, details } }`. */
export function sendError(response: HttpResponse, error: CoralError, options: SendErrorOptions = {}): void {
  const { code, message, details } = error;
  const isHttp2 = "stream" in response;
  if (options.closeConnection && !isHttp2 && !response.headersSent) response.setHeader("connection", "close");
  sendBody(response, statusOf(error), "application/json", JSON.stringify({ error: { code, message, details } }, jsonValue));
  if (options.closeConnection && isHttp2) {
    stopSending(response);
  }
}

/** Ends the request of an HTTP/2 client that is still sending, after the reply. */
export function stopSending(response: Http2ServerResponse): void {
  // Unread data would keep its share of the connection's flow-control window.
  response.req.resume();
  // Flushes the reply first.
  response.stream.close();
}

/** For these two cases HTTP has a more specific status than our error codes. */
function statusOf(error: CoralError): number {
  if (error.details["status"] === 405) return 405;
  if (error.details["maxBytes"] !== undefined) return 413;
  return httpStatusOf(error.code);
}

/** Does nothing if a reply was already sent or the client has disconnected. */
export function sendBody(response: HttpResponse, status: number, contentType: string, body: string): void {
  if (response.headersSent || response.writableEnded || response.destroyed) return;
  const bytes = Buffer.from(body);
  // TypeScript cannot call writeHead on the union: the overloads differ.
  const out = response as ServerResponse;
  out.writeHead(status, { "content-type": contentType, "content-length": bytes.length, "cache-control": "no-store" });
  out.end(bytes);
}

/** Replacer for JSON.stringify: bigints become strings. */
export function jsonValue(_key: string, value: unknown): unknown {
  return typeof value === "bigint" ? value.toString() : value;
}
