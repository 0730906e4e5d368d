/**
 * The interface of protocol decoders. There is one decoder per connection. It receives the heads of payloads in the order in which they passed the
 * socket, pairs requests with replies (usually by `RequestsInFlight`), and emits each request once, when it is finished.
 */

import type { TrafficProtocol } from "../../model/protocols.ts";
import type { TrafficRole } from "./messages.ts";

/** One payload in one direction. Valid during the call only: the bytes are in the ring buffer. Times are CLOCK_MONOTONIC in nanoseconds. */
export interface Chunk {
  /** The head of the payload, as much as the kernel copied. */
  bytes: Buffer;
  /** Length of the whole payload, at least `bytes.length`. Only its end can be missing. */
  fullLength: number;
  /** Read or written by the process. */
  atNs: number;
  /** Received: arrival in the kernel; sent: when the call began. 0 when unknown. */
  startNs: number;
}

/** A request whose response is complete, or will not come. */
export interface FinishedRequest {
  /** Default: the decoder's protocol. For a protocol inside another: gRPC in HTTP/2. */
  protocol?: TrafficProtocol;
  method: string;
  route: string;
  status: string;
  isError: boolean;
  /** First byte of the request (its arrival at a server, if known) to last byte of the response. */
  durationNs: number;
  /** Arrival to read by the server; null when unknown. */
  queueNs: number | null;
  /** First byte of the request to first byte of the response; null without a response. */
  firstByteNs: number | null;
  /** CLOCK_MONOTONIC of the last byte of the response. */
  endNs: number;
  requestBytes: number;
  responseBytes: number;
  /** The server name in the request, where the protocol carries one. */
  host?: string | null;
  /** Only while requests are captured. */
  detail?: RequestDetail;
}

/** Additional details for a capture. Unredacted: they must not leave the process unchanged. */
export interface RequestDetail {
  target: string;
  requestHeaders: [name: string, value: string][];
  responseHeaders: [name: string, value: string][];
  requestBody: Buffer | null;
  responseBody: Buffer | null;
}

/** Receives what a decoder finds. */
export interface RequestSink {
  finished(request: FinishedRequest): void;
  /** Requests that had to be skipped: invalid, truncated, or joined in the middle. */
  undecoded(count: number): void;
}

export interface ProtocolDecoder {
  onRequestBytes(chunk: Chunk): void;
  onReplyBytes(chunk: Chunk): void;
  /** The head of a payload that prepares statements which later requests may name; the kernel counts the requests in it. */
  onPrepared?(bytes: Buffer, isCut: boolean): void;
  /**
   * An unknown number of payloads of one direction was lost before the next call. A request whose response may be among them counts as undecoded,
   * never as `no-reply`.
   */
  onMissed(what: "requests" | "replies", atNs: number): void;
  /** The connection has been idle for a while: responses without an explicit end are complete. */
  onIdle(): void;
  /** The last call. Null: the connection is not closed but evicted, so that the outcome of open requests is unknown. */
  onClose(atNs: number | null): void;
}

export interface DecoderContext {
  sink: RequestSink;
  /** Role of the observed process. */
  role: TrafficRole;
  /** Whether a request needs `detail`; called for each. Default: never. */
  isCapturing?: () => boolean;
}

/** The signature of `createXDecoder()` in each file of protocols/. */
export type DecoderFactory = (context: DecoderContext) => ProtocolDecoder;

/** What the first bytes of a payload reveal. */
export interface Recognition {
  protocol: TrafficProtocol;
  isRequest: boolean;
}
