/** Forwards OTLP requests to another endpoint over HTTP or HTTPS. */

import { Agent as HttpAgent, request as httpRequest, type IncomingMessage } from "node:http";
import { Agent as HttpsAgent, request as httpsRequest } from "node:https";
import { CoralError } from "../../base/errors.ts";
import type { OtlpExport } from "./otlp-messages.ts";

export type OtlpSendOutcome = { kind: "sent" } | { kind: "retry"; message: string; afterMs: number } | { kind: "refused"; message: string };

export interface OtlpClientOptions {
  /** `http://host:4318` or `https://…`; `/v1/traces` and the like are added. */
  url: string;
  /** Such as an API key. Never logged. */
  headers?: Readonly<Record<string, string>>;
  timeoutMs?: number;
}

/** Keeps up to 8 connections to the endpoint open. Dispose it to close them. */
export interface OtlpClient extends Disposable {
  /** Rejects when the endpoint cannot be reached, or the signal aborts. */
  send(request: OtlpExport, signal: AbortSignal): Promise<OtlpSendOutcome>;
}

/** Statuses that the protocol allows to retry. */
const retryable = new Set([429, 502, 503, 504]);
/** Of an error response that goes into the message. */
const maxMessageBytes = 512;

/** `timeoutMs` is the time without any traffic on the connection. Default 10 s. */
export function createOtlpClient({ url, headers = {}, timeoutMs = 10_000 }: OtlpClientOptions): OtlpClient {
  const base = new URL(url);
  const isSecure = base.protocol === "https:";
  if (!isSecure && base.protocol !== "http:") {
    throw new CoralError({
      code: "invalid",
      message: `Cannot send to "${url}": not a valid endpoint; use an address that starts with http:// or https://`,
    });
  }
  const pool = { keepAlive: true, maxSockets: 8 };
  const agent = isSecure ? new HttpsAgent(pool) : new HttpAgent(pool);
  const post = isSecure ? httpsRequest : httpRequest;
  const send = (request: OtlpExport, signal: AbortSignal): Promise<OtlpSendOutcome> =>
    new Promise((resolve, reject) => {
      const target = new URL(`${base.pathname.replace(/\/$/, "")}/v1/${request.signal}${base.search}`, base);
      const outgoing = post(
        target,
        {
          method: "POST",
          agent,
          signal,
          timeout: timeoutMs,
          headers: {
            ...headers,
            "content-type": request.format === "json" ? "application/json" : "application/x-protobuf",
            "content-length": request.body.length,
            ...(request.encoding === "identity" ? {} : { "content-encoding": request.encoding }),
          },
        },
        (response) => {
          readOutcome(response).then(resolve, reject);
        },
      );
      outgoing.on("timeout", () => outgoing.destroy(new Error(`${base.host} did not respond within ${timeoutMs} ms`)));
      outgoing.on("error", reject);
      outgoing.end(request.body);
    });
  return { send, [Symbol.dispose]: () => agent.destroy() };
}

/** 2xx is success. 429, 502, 503 and 504 may be retried, after `retry-after` seconds but at most 5 min later. */
async function readOutcome(response: IncomingMessage): Promise<OtlpSendOutcome> {
  const { statusCode: status = 0, headers } = response;
  let text = "";
  response.setEncoding("latin1");
  // Read to the end, so that the connection can be reused; only the beginning is kept.
  for await (const chunk of response) if (text.length < maxMessageBytes) text += String(chunk);
  if (status >= 200 && status < 300) return { kind: "sent" };
  const message = `the endpoint returned HTTP ${status} ${text
    .slice(0, maxMessageBytes)
    .replace(/[^\x20-\x7e]+/g, " ")
    .trim()}`.trim();
  if (!retryable.has(status)) return { kind: "refused", message };
  const afterS = Number(headers["retry-after"] ?? 0);
  return { kind: "retry", message, afterMs: Number.isFinite(afterS) ? Math.min(300, Math.max(0, afterS)) * 1_000 : 0 };
}
