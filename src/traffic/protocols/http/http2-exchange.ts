/** One stream of HTTP/2, from its request to the end of its response, and its conversion to a finished request. */

import type { TrafficRole } from "../../core/messages.ts";
import type { FinishedRequest, RequestDetail } from "../../core/protocol-decoder.ts";
import type { RequestStart } from "../../requests/requests-in-flight.ts";
import { maxRouteLength, unknownRoute } from "../../requests/route-template.ts";
import { grpcCodeOfHttp, grpcCodeOfReset, grpcTimeoutNs, isGrpcError, isHttpError } from "./http-status.ts";
import { methodName } from "./http1-head.ts";
import { targetText } from "./target-text.ts";

export interface Exchange {
  streamId: number;
  startNs: number;
  queueNs: number | null;
  firstByteNs: number;
  lastByteNs: number;
  requestBytes: number;
  responseBytes: number;
  method: string;
  path: string;
  authority: string;
  isGrpc: boolean;
  hasTrailersHint: boolean;
  /** The caller's timeout. */
  timeoutNs: number | null;
  /** 0 until the final response starts, or if its status is unknown. */
  status: number;
  hasResponse: boolean;
  grpcStatus: number | null;
  hasTrailers: boolean;
  /** gRPC calls have been seen on this connection. */
  isAmongCalls: boolean;
  /** Some of its fields were added to the HPACK table before Coral joined. */
  hasUnknownFields: boolean;
  resetCode: number | null;
  /** Pushed by the server without a request. */
  isPushed: boolean;
  /** Records were lost while it was open. */
  isReplyUncertain: boolean;
  detail: RequestDetail | null;
}

/** `startNs`: for a server when bytes arrived, for a client when the send started; 0 if unknown. */
export function createExchange(streamId: number, start: RequestStart, role: TrafficRole): Exchange {
  const isEarlier = start.startNs > 0 && start.startNs < start.atNs;
  const startNs = isEarlier ? start.startNs : start.atNs;
  return {
    streamId,
    startNs,
    queueNs: isEarlier && role === "server" ? start.atNs - start.startNs : null,
    firstByteNs: -1,
    lastByteNs: startNs,
    requestBytes: 0,
    responseBytes: 0,
    method: "",
    path: "",
    authority: "",
    isGrpc: false,
    hasTrailersHint: false,
    timeoutNs: null,
    status: 0,
    hasResponse: false,
    grpcStatus: null,
    hasTrailers: false,
    isAmongCalls: false,
    hasUnknownFields: false,
    resetCode: null,
    isPushed: false,
    isReplyUncertain: false,
    detail: null,
  };
}

const grpcContentType = /^application\/grpc(?:\+|;|$)/i;
const grpcPath = /^\/((?:[A-Za-z_]\w*\.)*[A-Za-z_]\w*\/[A-Za-z_]\w*)$/;

/** A field of the request. */
export function addRequestField(exchange: Exchange, name: string, value: string): void {
  switch (name) {
    case ":method":
      exchange.method = value;
      break;
    case ":path":
      exchange.path = targetText(value);
      break;
    case ":authority":
      exchange.authority = value;
      break;
    case "host":
      if (exchange.authority === "") exchange.authority = value;
      break;
    case "content-type":
      if (grpcContentType.test(value)) exchange.isGrpc = true;
      break;
    case "te":
      if (value === "trailers") exchange.hasTrailersHint = true;
      break;
    case "grpc-timeout":
      exchange.timeoutNs = grpcTimeoutNs(value);
      break;
  }
}

/** A field of the response's head or trailers. `isLast`: the stream ends with it. */
export function addResponseField(exchange: Exchange, name: string | null, value: string, isLast: boolean): void {
  if (name === ":status") exchange.status = /^\d{3}$/.test(value) ? Number(value) : 0;
  else if (name === "content-type" && grpcContentType.test(value)) exchange.isGrpc = true;
  else if (name === "grpc-status" || (name === null && isLast && mayBeRpc(exchange))) {
    // If names were added before Coral joined, a small number in the last block is the status.
    if (!/^(?:\d|1[0-6])$/.test(value)) return;
    exchange.grpcStatus = Number(value);
    exchange.isGrpc = true;
  }
}

function mayBeRpc(exchange: Exchange): boolean {
  return exchange.grpcStatus === null && hasFormOfRpc(exchange);
}

/**
 * If the path was added to the table before Coral joined, trailers identify gRPC: hardly anything else sends them after a response. Calls that fail
 * at once have none, and are identified by other calls on the connection.
 */
function hasFormOfRpc({ method, path, hasTrailers, isAmongCalls, hasUnknownFields }: Exchange): boolean {
  if (method !== "POST") return false;
  return path === "" ? hasUnknownFields && (hasTrailers || isAmongCalls) : grpcPath.test(path);
}

function isGrpc(exchange: Exchange): boolean {
  if (exchange.isGrpc) return true;
  if (!hasFormOfRpc(exchange)) return false;
  if (exchange.path === "") return true;
  // Without a known content type, trailers or a package name before the service identify gRPC.
  return exchange.hasTrailersHint || (exchange.hasUnknownFields && (exchange.hasTrailers || exchange.path.includes(".")));
}

const cancelCode = 8;
const deadlineExceeded = 4;
/** Callers round their timeout up to two or three digits. */
const timeoutShare = 0.95;

/** A client sends CANCEL at its deadline as well as for other reasons; only the elapsed time distinguishes them. */
function isTimedOut({ resetCode, timeoutNs, startNs, lastByteNs }: Exchange): boolean {
  return resetCode === cancelCode && timeoutNs !== null && lastByteNs - startNs >= timeoutNs * timeoutShare;
}

function grpcStatusOf(exchange: Exchange, hasResponse: boolean): { status: string; code: number | null } {
  if (exchange.grpcStatus !== null) return { status: String(exchange.grpcStatus), code: exchange.grpcStatus };
  if (exchange.resetCode !== null) {
    const code = isTimedOut(exchange) ? deadlineExceeded : grpcCodeOfReset(exchange.resetCode);
    return { status: String(code), code };
  }
  if (!hasResponse) return { status: "no-reply", code: 14 };
  // A status in trailers that were added to the table before Coral joined.
  if (exchange.hasUnknownFields || exchange.status === 0) return { status: "unknown", code: null };
  const code = exchange.status === 200 ? 2 : grpcCodeOfHttp(exchange.status);
  return { status: String(code), code };
}

function statusOf(exchange: Exchange, role: TrafficRole, isRpc: boolean): { status: string; isError: boolean } {
  const hasResponse = exchange.hasResponse;
  if (isRpc) {
    const { status, code } = grpcStatusOf(exchange, hasResponse);
    return { status, isError: status === "no-reply" || (code !== null && isGrpcError(code, role)) };
  }
  if (!hasResponse) return { status: "no-reply", isError: true };
  // An aborted response is an error, unless the client canceled it (CANCEL) or needs no more of it (NO_ERROR).
  const isBroken = exchange.resetCode !== null && exchange.resetCode !== 0 && exchange.resetCode !== cancelCode;
  const status = exchange.status === 0 ? "unknown" : String(exchange.status);
  return { status, isError: isBroken || (exchange.status > 0 && isHttpError(exchange.status, role)) };
}

function routeOf(exchange: Exchange, isRpc: boolean, template: (target: string) => string): string {
  if (exchange.path === "") return exchange.method === "CONNECT" && exchange.authority !== "" ? template(exchange.authority) : unknownRoute;
  const rpc = isRpc ? grpcPath.exec(exchange.path)?.[1] : undefined;
  return rpc !== undefined && rpc.length <= maxRouteLength ? rpc : template(exchange.path);
}

/** Converts a finished stream to a request. */
export function finishExchange(
  exchange: Exchange,
  role: TrafficRole,
  host: string | null,
  template: (target: string) => string,
): FinishedRequest {
  const isRpc = isGrpc(exchange);
  return {
    protocol: isRpc ? "grpc" : "http2",
    method: exchange.method === "" ? "" : methodName(exchange.method),
    route: routeOf(exchange, isRpc, template),
    ...statusOf(exchange, role, isRpc),
    durationNs: Math.max(0, exchange.lastByteNs - exchange.startNs),
    queueNs: exchange.queueNs,
    firstByteNs: exchange.firstByteNs < 0 ? null : Math.max(0, exchange.firstByteNs - exchange.startNs),
    endNs: exchange.lastByteNs,
    requestBytes: exchange.requestBytes,
    responseBytes: exchange.responseBytes,
    host,
    ...(exchange.detail === null ? {} : { detail: exchange.detail }),
  };
}
