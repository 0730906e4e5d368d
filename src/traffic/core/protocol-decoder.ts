/**
 * What a decoder of a wire format is given and what it tells. There is one decoder per connection. It gets the heads of payloads in the order in which
 * they passed the socket, pairs requests with replies (usually by `RequestsInFlight`) and tells each request once, when it is over.
 */

import type { TrafficProtocol } from "../../model/protocols.ts";
import type { TrafficRole } from "./messages.ts";

/** One payload in one direction. Lent for the call only: the bytes lie in the ring buffer. Times are CLOCK_MONOTONIC in nanoseconds. */
export interface Chunk {
  /** The head of the payload, as much as the kernel took. */
  bytes: Buffer;
  /** Of the payload, at least `bytes.length`. What is missing is always at its end. */
  fullLength: number;
  /** Read or written by the process. */
  atNs: number;
  /** Received: arrival in the kernel; sent: when the call began. 0 when unknown. */
  startNs: number;
}

/** A request that is over. */
export interface FinishedRequest {
  /** Default: the decoder's. For formats inside formats: gRPC in HTTP/2. */
  protocol?: TrafficProtocol;
  method: string;
  route: string;
  status: string;
  isError: boolean;
  /** First byte asked (its arrival at a server, if known) to last byte answered. */
  durationNs: number;
  /** Arrival to read by the server; null when unknown. */
  queueNs: number | null;
  /** First byte asked to first byte answered; null when nothing was answered. */
  firstByteNs: number | null;
  /** CLOCK_MONOTONIC of the last byte answered. */
  endNs: number;
  requestBytes: number;
  responseBytes: number;
  /** The name by which the server was asked for, where the protocol carries one. */
  host?: string | null;
  /** Only while requests are captured. */
  detail?: RequestDetail;
}

/** What a capture shows besides the group of a request. As sent, so that it must be redacted before it leaves the process. */
export interface RequestDetail {
  target: string;
  requestHeaders: [name: string, value: string][];
  responseHeaders: [name: string, value: string][];
  requestBody: Buffer | null;
  responseBody: Buffer | null;
}

/** Where a decoder tells what it found. */
export interface RequestSink {
  finished(request: FinishedRequest): void;
  /** Requests that had to be skipped: garbage, cut short, joined in the middle. */
  undecoded(count: number): void;
}

export interface ProtocolDecoder {
  onRequestBytes(chunk: Chunk): void;
  onReplyBytes(chunk: Chunk): void;
  /** The head of a payload in which statements are prepared that later ones may name; all else in it is counted by others. */
  onPrepared?(bytes: Buffer, isCut: boolean): void;
  /**
   * Payloads of one direction were lost before the next call, nobody knows how many. A request whose answer may have been among them is counted as undecoded,
   * never as unanswered.
   */
  onMissed(what: "requests" | "replies", atNs: number): void;
  /** The connection has been quiet for a while: answers without a marked end are over. */
  onQuiet(): void;
  /** Called once, and last. Null: not closed but forgotten, so that nothing can be said about open requests. */
  onClose(atNs: number | null): void;
}

export interface DecoderContext {
  sink: RequestSink;
  /** Of the process that is observed. */
  role: TrafficRole;
  /** Asked for each request: whether `detail` is wanted. Default: never. */
  isCapturing?: () => boolean;
}

/** `createX(context)` of each file in protocols/. */
export type DecoderFactory = (context: DecoderContext) => ProtocolDecoder;

/** What the first bytes of a payload are. */
export interface Recognition {
  protocol: TrafficProtocol;
  isRequest: boolean;
}
