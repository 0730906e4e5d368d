/** What happens to a request between arrival and acknowledgement: decompress, inspect, make durable. */

import { promisify } from "node:util";
import { unzip, unzipSync } from "node:zlib";
import type { ByteBudget } from "../../base/byte-budget.ts";
import type { Clock } from "../../base/clock.ts";
import { CoralError } from "../../base/errors.ts";
import type { Logger } from "../../base/log.ts";
import { releaseBytes } from "../../base/release-bytes.ts";
import { type AgentSegments } from "../../store/segments/index.ts";
import { logRecord, span } from "../../store/signals/index.ts";
import { MalformedError } from "../columns/protobuf-reader.ts";
import { type Inspection, inspectRequest, type OtlpSignal } from "../decode/inspect-request.ts";
import type { MetricPoint } from "../decode/metric-point.ts";
import type { DecodePool } from "./decode-pool.ts";
import type { RejectedPoints } from "./metric-intake.ts";
import { RepeatedRequests } from "./repeated-requests.ts";
import type { RequestJournal } from "./request-journal.ts";
import { requestKind } from "./unsealed-requests.ts";

const unzipLater = promisify(unzip);

/** One export call, as it arrived. */
export interface OtlpRequest {
  signal: OtlpSignal;
  format: "protobuf" | "json";
  encoding: "identity" | "gzip" | "deflate" | "zstd";
  /** The body as sent. It must not change before the reply; copy it to keep it longer. */
  body: Uint8Array;
}

export type OtlpReply =
  /** Durable, except for `rejected` rows, for the reason in `message`. */
  | { kind: "accepted"; rejected: number; message: string }
  /** Nothing was stored. `busy` and `unavailable` may be retried after `retryAfterMs`. */
  | { kind: "refused"; reason: "malformed" | "too-large"; message: string }
  | { kind: "refused"; reason: "busy" | "unavailable"; message: string; retryAfterMs: number };

export interface OtlpReceiverOptions {
  segments: Pick<AgentSegments, "append">;
  pool: DecodePool;
  /** Resolves when the points are durable, with the rejected ones. Absent: metrics are rejected. */
  storeMetrics?: (points: readonly MetricPoint[]) => Promise<RejectedPoints | undefined>;
  /** Called for each accepted request. */
  forward?: (request: OtlpRequest) => void;
  /** Called with the rows of each request before they are stored. */
  onRows?: (rows: number) => void;
  /** Recognises requests that are repeated after a restart. */
  journal?: RequestJournal | undefined;
  /** Limit of a decompressed body. */
  maxBodyBytes: number;
  /** For decompressed bodies; shared with the servers that read bodies from sockets. */
  budget: ByteBudget;
  clock: Clock;
  log: Logger;
}

/** Since the start. */
export interface SignalCounts {
  requests: number;
  /** Spans, records or points that were acknowledged. */
  rows: number;
  rejected: number;
  /** Requests that were refused. */
  refused: number;
  /** Retransmitted requests, acknowledged without being stored again. */
  repeated: number;
  bytes: number;
}

/** Bodies up to this size are decompressed synchronously: gzip and deflate expand at most a thousandfold, so to 4 MiB. */
const inlineZipBytes = 4 * 1024;
/** Suggested to a sender when there is too much in flight. Five times as long while the store is unavailable. */
const retryAfterMs = 1_000;
/** Shared, because replies are cached. */
const noneRejected: RejectedPoints = Object.freeze({ rejected: 0, message: "" });

/** Acknowledges a request only after it is durable. Spans and log records are decoded later, when their write-ahead file is sealed. */
export class OtlpReceiver {
  readonly #options: OtlpReceiverOptions;
  readonly counts: Readonly<Record<OtlpSignal, SignalCounts>> = { traces: noCounts(), logs: noCounts(), metrics: noCounts() };
  readonly #repeated: RepeatedRequests<RejectedPoints>;
  #loggedAtMs = Number.NEGATIVE_INFINITY;

  constructor(options: OtlpReceiverOptions) {
    this.#options = options;
    this.#repeated = new RepeatedRequests({ clock: options.clock, journal: options.journal }, noneRejected);
  }

  /** Never rejects. */
  async accept(request: OtlpRequest): Promise<OtlpReply> {
    const counts = this.counts[request.signal];
    counts.requests++;
    counts.bytes += request.body.length;
    let result: { reply: OtlpReply; isNew: boolean };
    try {
      result = await this.#take(request);
    } catch (error) {
      result = { reply: this.#refusal(error), isNew: false };
    }
    if (result.reply.kind === "refused") counts.refused++;
    else if (result.isNew) this.#options.forward?.(request);
    else counts.repeated++;
    return result.reply;
  }

  async #take(request: OtlpRequest): Promise<{ reply: OtlpReply; isNew: boolean }> {
    const { budget, pool } = this.#options;
    const unpacked = request.encoding === "identity" ? this.#checked(request.body) : await this.#unpack(request);
    // Bytes from the socket are counted by its reader; decompressed bytes here.
    const moreBytes = unpacked === request.body ? 0 : unpacked.length;
    if (!budget.take(moreBytes)) {
      const reply = busy(`${budget.usedBytes} of ${budget.maxBytes} request bytes are in flight already`);
      return { reply, isNew: false };
    }
    try {
      const body = request.format === "json" ? await pool.jsonToProtobuf(request.signal, unpacked) : unpacked;
      const inspection = inspectRequest(request.signal, body);
      const { rejected, reason } = inspection;
      let isNew = false;
      const keep = (): Promise<RejectedPoints> => {
        isNew = true;
        return this.#keep(request.signal, body, inspection);
      };
      const rejectedPoints = inspection.isTimeless ? await keep() : await this.#repeated.once(request.signal, body, keep);
      return {
        reply: { kind: "accepted", rejected: rejected + rejectedPoints.rejected, message: reason || rejectedPoints.message },
        isNew,
      };
    } finally {
      if (moreBytes > 0) releaseBytes(unpacked);
      budget.give(moreBytes);
    }
  }

  async #keep(signal: OtlpSignal, body: Uint8Array, { rows, rejected }: Inspection): Promise<RejectedPoints> {
    this.#options.onRows?.(rows);
    const rejectedPoints = rows > rejected ? await this.#store(signal, body, rows) : noneRejected;
    const counts = this.counts[signal];
    counts.rows += rows - rejected - rejectedPoints.rejected;
    counts.rejected += rejected + rejectedPoints.rejected;
    return rejectedPoints;
  }

  async #store(signal: OtlpSignal, body: Uint8Array, rows: number): Promise<RejectedPoints> {
    const { segments, clock } = this.#options;
    const receivedUs = Math.round(clock.wallMs() * 1_000);
    if (signal !== "metrics") {
      await segments.append(signal === "traces" ? span.name : logRecord.name, { kind: requestKind, rows, receivedUs, body });
      return noneRejected;
    }
    return this.#storeMetrics(body, rows, receivedUs);
  }

  async #storeMetrics(body: Uint8Array, rows: number, receivedUs: number): Promise<RejectedPoints> {
    const { pool, storeMetrics } = this.#options;
    if (storeMetrics === undefined) return { rejected: rows, message: "this receiver does not store metrics" };
    const { points, malformed } = await pool.decodeMetrics(body, receivedUs);
    const rejectedPoints = points.length > 0 ? await storeMetrics(points) : undefined;
    const unread = malformed > 0 ? "a metric has a point that cannot be read" : "";
    return { rejected: malformed + (rejectedPoints?.rejected ?? 0), message: unread || (rejectedPoints?.message ?? "") };
  }

  #checked(body: Uint8Array): Uint8Array {
    const { maxBodyBytes } = this.#options;
    if (body.length > maxBodyBytes) throw tooLarge(maxBodyBytes);
    return body;
  }

  async #unpack({ encoding, body }: OtlpRequest): Promise<Uint8Array> {
    const { maxBodyBytes, pool } = this.#options;
    if (encoding === "zstd") {
      const content = await pool.unpackZstd(body, maxBodyBytes);
      if (content === null) throw tooLarge(maxBodyBytes);
      return content;
    }
    try {
      const options = { maxOutputLength: maxBodyBytes };
      // Detects gzip and deflate by their first bytes.
      return body.length <= inlineZipBytes ? unzipSync(body, options) : await unzipLater(body, options);
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code === "ERR_BUFFER_TOO_LARGE") throw tooLarge(maxBodyBytes);
      throw new MalformedError(`the body is not valid ${encoding}`, { cause: error });
    }
  }

  #refusal(error: unknown): OtlpReply {
    if (error instanceof MalformedError)
      return { kind: "refused", reason: "malformed", message: `Cannot read the request: ${error.message}` };
    const { code, message, details } = CoralError.from(error);
    if (code === "exhausted") return details["isTooLarge"] === true ? { kind: "refused", reason: "too-large", message } : busy(message);
    this.#complain(message);
    return { kind: "refused", reason: "unavailable", message, retryAfterMs: retryAfterMs * 5 };
  }

  /** Rate-limited: a full disk refuses thousands of requests a second. */
  #complain(message: string): void {
    const nowMs = this.#options.clock.monotonicMs();
    if (nowMs - this.#loggedAtMs < 10_000) return;
    this.#loggedAtMs = nowMs;
    this.#options.log.error(`refusing OTLP requests: ${message}`);
  }
}

function busy(message: string): OtlpReply {
  return { kind: "refused", reason: "busy", message: `Cannot accept the request now: ${message}`, retryAfterMs };
}

function tooLarge(maxBytes: number): CoralError {
  return new CoralError({
    code: "exhausted",
    message: `Cannot accept the request: its body is larger than ${maxBytes} bytes; send smaller batches`,
    details: { isTooLarge: true },
  });
}

function noCounts(): SignalCounts {
  return { requests: 0, rows: 0, rejected: 0, refused: 0, repeated: 0, bytes: 0 };
}
