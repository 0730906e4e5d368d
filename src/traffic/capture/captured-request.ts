/** Which requests a capture includes, and which of their details may leave the process. */

import { escapeControls, redactBody, redactHeaders, redactTarget } from "../../redact/index.ts";
import type { CapturedRequest, CaptureOrder } from "../core/messages.ts";
import type { FinishedRequest, RequestDetail } from "../core/protocol-decoder.ts";
import type { StreamEnds } from "../streams/payload-streams.ts";

/** A code, a class such as `5xx`, or `error`. */
function matchesStatus(wanted: string, { status, isError }: FinishedRequest): boolean {
  const lower = wanted.toLowerCase();
  if (lower === "error") return isError;
  if (/^[1-5]xx$/.test(lower)) return status.length === 3 && status.startsWith(lower.slice(0, 1));
  return status.toLowerCase() === lower;
}

/** The order's route matches if the route, or the target it was made from, contains it. */
export function matchesOrder(order: CaptureOrder, request: FinishedRequest): boolean {
  if (request.durationNs < order.minDurationMs * 1e6) return false;
  if (order.status !== null && !matchesStatus(order.status, request)) return false;
  if (order.route === null) return true;
  const [path = ""] = (request.detail?.target ?? "").split("?", 1);
  return request.route.includes(order.route) || path.includes(order.route);
}

function valueOf(headers: RequestDetail["requestHeaders"], name: string): string {
  return headers.find(([known]) => known.toLowerCase() === name)?.[1] ?? "";
}

function bodyOf(body: Buffer | null, headers: RequestDetail["requestHeaders"]): string | null {
  if (body === null) return null;
  const facts = { contentType: valueOf(headers, "content-type"), contentEncoding: valueOf(headers, "content-encoding") };
  const length = valueOf(headers, "content-length");
  return redactBody(body, { ...facts, isCut: length === "" || Number(length) > body.length });
}

/** Masked and printable. Bodies only if the order includes them. */
export function toCaptured(order: CaptureOrder, ends: StreamEnds, request: FinishedRequest): CapturedRequest {
  const { detail } = request;
  const isServer = ends.role === "server";
  const local = { address: ends.localAddress ?? "", port: ends.localPort };
  const peer = { address: ends.peerAddress, port: ends.peerPort };
  const [client, server] = isServer ? [peer, local] : [local, peer];
  return {
    kind: "captured",
    captureId: order.captureId,
    at: { monoNs: BigInt(Math.round(request.endNs - request.durationNs)) },
    pid: ends.pid,
    role: ends.role,
    protocol: request.protocol ?? ends.protocol,
    isTls: ends.isTls,
    clientAddress: client.address,
    clientPort: client.port,
    serverAddress: server.address,
    serverPort: server.port,
    method: escapeControls(request.method),
    target: detail === undefined || detail.target === "" ? escapeControls(request.route) : redactTarget(detail.target),
    route: request.route,
    status: request.status,
    isError: request.isError,
    requestHeaders: redactHeaders(detail?.requestHeaders ?? []),
    responseHeaders: redactHeaders(detail?.responseHeaders ?? []),
    requestBytes: request.requestBytes,
    responseBytes: request.responseBytes,
    durationNs: request.durationNs,
    firstByteNs: request.firstByteNs,
    queueNs: request.queueNs,
    requestBody: order.includeBody && detail !== undefined ? bodyOf(detail.requestBody, detail.requestHeaders) : null,
    responseBody: order.includeBody && detail !== undefined ? bodyOf(detail.responseBody, detail.responseHeaders) : null,
  };
}
