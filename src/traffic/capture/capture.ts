/**
 * Captures single requests of chosen processes for a limited time. The kernel knows the processes and the deadline, and copies their payloads in
 * addition to counting them. Copies have their own decoders; HTTP/2 and DNS use the decoders that count them. Output is filtered and redacted.
 */

import type { BpfMap } from "../../bpf/index.ts";
import type { TrafficProtocol } from "../../model/protocols.ts";
import type { CaptureOrder, TrafficReport } from "../core/messages.ts";
import type { DecoderFactory, FinishedRequest, Recognition } from "../core/protocol-decoder.ts";
import { RequestGroups } from "../requests/request-groups.ts";
import { type MissedRecords, type PayloadRecord, PayloadStreams, type StreamEnds } from "../streams/payload-streams.ts";
import { matchesOrder, toCaptured } from "./captured-request.ts";

export interface CapturesOptions {
  /** `capture_targets` of probes/requests/connection.h. */
  targets: Pick<BpfMap, "update" | "delete">;
  /** Sets the kernel's flag for whether `targets` has entries. */
  setActive(isActive: boolean): void;
  report(report: TrafficReport): void;
  /** Decoders of copied payloads, so not of HTTP/2 and DNS. */
  decoders: Partial<Record<TrafficProtocol, DecoderFactory>>;
  recognise(bytes: Buffer, lengthBytes: number, hint: TrafficProtocol | null): Recognition | null;
  /** CLOCK_MONOTONIC. */
  nowNs?: () => bigint;
}

interface Running {
  order: CaptureOrder;
  untilNs: bigint;
  left: number;
}

/** Captures at the same time; a further one expires at once. */
const maxCaptures = 16;
/** As many as fit into `capture_targets`. */
const maxProcesses = 256;
const maxConnections = 1024;
/** Upper limit for the duration of any order. */
const maxDurationMs = 3_600_000;

export class Captures implements Disposable {
  readonly #options: CapturesOptions;
  readonly #nowNs: () => bigint;
  readonly #running = new Map<string, Running>();
  /** The contents of `capture_targets`, by process. */
  #targets = new Map<number, bigint>();
  #streams: PayloadStreams | null = null;

  constructor(options: CapturesOptions) {
    this.#options = options;
    this.#nowNs = options.nowNs ?? (() => process.hrtime.bigint());
  }

  get isActive(): boolean {
    return this.#running.size > 0;
  }

  /** Whether any capture includes this process. */
  isCapturing(pid: number): boolean {
    return this.#targets.has(pid);
  }

  /** An order with the id of a running capture replaces it, for instance when the processes of a service have changed. */
  start(order: CaptureOrder): void {
    const known = this.#running.get(order.captureId);
    if (known === undefined && this.#running.size >= maxCaptures) {
      this.#options.report({ kind: "capture-ended", captureId: order.captureId, reason: "expired" });
      return;
    }
    const durationMs = Math.min(Math.max(order.durationMs, 0), maxDurationMs);
    const untilNs = known?.untilNs ?? this.#nowNs() + BigInt(Math.round(durationMs * 1e6));
    this.#running.set(order.captureId, { order, untilNs, left: known?.left ?? order.limit });
    this.#updateTargets();
  }

  stop(captureId: string): void {
    if (this.#running.delete(captureId)) this.#updateTargets();
  }

  /** A payload that the kernel copied. */
  onPayload(record: PayloadRecord): void {
    if (this.isCapturing(record.pid)) this.#copies().onPayload(record);
  }

  onClose(connectionId: number, atNs: number, missed?: MissedRecords): void {
    this.#streams?.onClose(connectionId, atNs, missed);
  }

  /** A request from a regular decoder. Only HTTP/2 and DNS are used: payloads of all other protocols are copied for the capture. */
  onRequest(ends: StreamEnds, request: FinishedRequest): void {
    if (ends.protocol === "http2" || ends.protocol === "dns") this.#take(ends, request);
  }

  /** Call about once a second. */
  sweep(nowNs: bigint): void {
    if (this.#running.size === 0) return;
    for (const [captureId, { untilNs }] of this.#running) if (untilNs <= nowNs) this.#end(captureId, "expired");
    this.#streams?.sweep(Number(nowNs));
  }

  [Symbol.dispose](): void {
    this.#running.clear();
    this.#updateTargets();
  }

  #take(ends: StreamEnds, request: FinishedRequest): void {
    if (!this.isCapturing(ends.pid)) return;
    for (const [captureId, running] of this.#running) {
      const { order } = running;
      if (!order.pids.includes(ends.pid) || !matchesOrder(order, request)) continue;
      running.left--;
      if (running.left >= 0) this.#options.report(toCaptured(order, ends, request));
      if (running.left <= 0) this.#end(captureId, "limit");
    }
  }

  #end(captureId: string, reason: "limit" | "expired"): void {
    if (!this.#running.delete(captureId)) return;
    this.#options.report({ kind: "capture-ended", captureId, reason });
    this.#updateTargets();
  }

  #copies(): PayloadStreams {
    this.#streams ??= new PayloadStreams({
      // Captured requests are counted elsewhere.
      groups: new RequestGroups({ maxGroups: 1 }),
      decoders: this.#options.decoders,
      recognise: (...payload) => this.#options.recognise(...payload),
      onLoss: () => {},
      onRequest: (ends, request) => this.#take(ends, request),
      isCapturing: () => true,
      maxConnections,
      // The kernel copies the first record of a payload only.
      maxPieces: 1,
    });
    return this.#streams;
  }

  /** Updates `capture_targets` for the running captures. The lowest bit of the deadline requests bodies. */
  #updateTargets(): void {
    const wanted = new Map<number, { untilNs: bigint; hasBodies: boolean }>();
    for (const { order, untilNs } of this.#running.values()) {
      for (const pid of order.pids) {
        const known = wanted.get(pid);
        if (known === undefined && wanted.size >= maxProcesses) continue;
        wanted.set(pid, {
          untilNs: known !== undefined && known.untilNs > untilNs ? known.untilNs : untilNs,
          hasBodies: order.includeBody || known?.hasBodies === true,
        });
      }
    }
    const { targets } = this.#options;
    for (const pid of this.#targets.keys()) if (!wanted.has(pid)) targets.delete(keyOf(pid));
    const updated = new Map<number, bigint>();
    for (const [pid, { untilNs, hasBodies }] of wanted) {
      const value = (untilNs & ~1n) | (hasBodies ? 1n : 0n);
      updated.set(pid, value);
      if (this.#targets.get(pid) !== value) targets.update(keyOf(pid), valueOf(value));
    }
    this.#targets = updated;
    this.#options.setActive(updated.size > 0);
    if (updated.size === 0) this.#streams = null;
  }
}

function keyOf(pid: number): Buffer {
  const key = Buffer.alloc(4);
  key.writeUInt32LE(pid);
  return key;
}

function valueOf(untilNs: bigint): Buffer {
  const value = Buffer.alloc(8);
  value.writeBigUInt64LE(untilNs);
  return value;
}
