/**
 * Captures: single requests of chosen processes, for a while. The kernel is told which processes, and until when; it then copies their payloads besides
 * counting them. Copies go through decoders of their own; HTTP/2 and DNS are read by those that count them. What leaves here is filtered and redacted.
 */

import type { BpfMap } from "../../bpf/index.ts";
import type { TrafficProtocol } from "../../model/protocols.ts";
import type { CaptureOrder, TrafficReport } from "../core/messages.ts";
import type { DecoderFactory, FinishedRequest, Recognition } from "../core/protocol-decoder.ts";
import { RequestGroups } from "../requests/request-groups.ts";
import { type PayloadRecord, PayloadStreams, type StreamEnds } from "../streams/payload-streams.ts";
import { matchesOrder, toCaptured } from "./captured-request.ts";

export interface CapturesOptions {
  /** `capture_targets` of probes/requests/connection.h. */
  targets: Pick<BpfMap, "update" | "delete">;
  /** Tells the kernel whether there is anything in it. */
  setActive(isActive: boolean): void;
  report(report: TrafficReport): void;
  /** Of protocols whose payloads are copied; HTTP/2 and DNS are not among them. */
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

/** At once; a further one is told that it has expired. */
const maxCaptures = 16;
/** As many as fit into `capture_targets`. */
const maxProcesses = 256;
const maxConnections = 1024;
/** Whatever an order says. */
const maxDurationMs = 3_600_000;

export class Captures implements Disposable {
  readonly #options: CapturesOptions;
  readonly #nowNs: () => bigint;
  readonly #running = new Map<string, Running>();
  /** What the kernel was told, by process. */
  #targets = new Map<number, bigint>();
  #streams: PayloadStreams | null = null;

  constructor(options: CapturesOptions) {
    this.#options = options;
    this.#nowNs = options.nowNs ?? (() => process.hrtime.bigint());
  }

  get isActive(): boolean {
    return this.#running.size > 0;
  }

  /** Whether requests of this process are wanted. */
  isCapturing(pid: number): boolean {
    return this.#targets.has(pid);
  }

  /** An order with the id of a running one replaces it, as when the processes of a service have changed. */
  start(order: CaptureOrder): void {
    const known = this.#running.get(order.captureId);
    if (known === undefined && this.#running.size >= maxCaptures) {
      this.#options.report({ kind: "capture-ended", captureId: order.captureId, reason: "expired" });
      return;
    }
    const durationMs = Math.min(Math.max(order.durationMs, 0), maxDurationMs);
    const untilNs = known?.untilNs ?? this.#nowNs() + BigInt(Math.round(durationMs * 1e6));
    this.#running.set(order.captureId, { order, untilNs, left: known?.left ?? order.limit });
    this.#tellKernel();
  }

  stop(captureId: string): void {
    if (this.#running.delete(captureId)) this.#tellKernel();
  }

  /** A payload that the kernel copied. */
  onPayload(record: PayloadRecord): void {
    if (this.isCapturing(record.pid)) this.#copies().onPayload(record);
  }

  onClose(connectionId: number, atNs: number): void {
    this.#streams?.onClose(connectionId, atNs);
  }

  /** A request that was decoded anyway. Only those of HTTP/2 and DNS are taken: payloads of all others are copied. */
  onRequest(ends: StreamEnds, request: FinishedRequest): void {
    if (ends.protocol === "http2" || ends.protocol === "dns") this.#take(ends, request);
  }

  /** To be called about once a second. */
  sweep(nowNs: bigint): void {
    if (this.#running.size === 0) return;
    for (const [captureId, { untilNs }] of this.#running) if (untilNs <= nowNs) this.#end(captureId, "expired");
    this.#streams?.sweep(Number(nowNs));
  }

  [Symbol.dispose](): void {
    this.#running.clear();
    this.#tellKernel();
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
    this.#tellKernel();
  }

  #copies(): PayloadStreams {
    this.#streams ??= new PayloadStreams({
      // What is captured was counted already.
      groups: new RequestGroups({ maxGroups: 1 }),
      decoders: this.#options.decoders,
      recognise: (...payload) => this.#options.recognise(...payload),
      onLoss: () => {},
      onRequest: (ends, request) => this.#take(ends, request),
      isCapturing: () => true,
      maxConnections,
    });
    return this.#streams;
  }

  /** Makes `capture_targets` what the running captures want. The lowest bit of the time says that bodies are wanted. */
  #tellKernel(): void {
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
    const told = new Map<number, bigint>();
    for (const [pid, { untilNs, hasBodies }] of wanted) {
      const value = (untilNs & ~1n) | (hasBodies ? 1n : 0n);
      told.set(pid, value);
      if (this.#targets.get(pid) !== value) targets.update(keyOf(pid), valueOf(value));
    }
    this.#targets = told;
    this.#options.setActive(told.size > 0);
    if (told.size === 0) this.#streams = null;
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
