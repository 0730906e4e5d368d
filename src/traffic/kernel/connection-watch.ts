/**
 * Tracks TCP connections in the kernel: loads probes/tcp/connections.bpf.c, reports connections that end, and relays the marks of socket scans. Runs
 * in the traffic process.
 */

import { existsSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { CoralError } from "../../base/errors.ts";
import { type AddressTexts, createAddressTexts } from "../../base/ip-address.ts";
import { type BpfMap, type BpfObject, explainBpfFailure, loadBpfObject } from "../../bpf/index.ts";
import type { ConnectionEvent, ConnectionsReport, PeerConnections } from "../core/messages.ts";
import type { PollTimer } from "../core/poll-timer.ts";
import { readConnectionRecord, readPeerEntry } from "./connection-records.ts";
import { scopeConstants } from "./scope-constants.ts";

export interface ConnectionWatchOptions {
  /** Sockets tracked at the same time. Default 65,536. */
  maxConnections?: number;
  report: (report: ConnectionsReport) => void;
  /** When the ring is read, unless it fills earlier. */
  timer: Pick<PollTimer, "onTick">;
  objectPath?: string;
  /** For tests: how often sums are reported. Default 10 s. */
  flushMs?: number;
}

export interface ConnectionWatch extends AsyncDisposable {
  /** A socket scan starts or has finished. Sends a report with this mark, after everything that ended before it. */
  markScan(phase: "begin" | "end", mark: number): void;
  readonly object: BpfObject;
}

/** Events per report. A message of a megabyte would delay the ones behind it. */
const maxEvents = 2_000;
/** A scan without an end mark counts as finished after this time. */
const maxScanMs = 120_000;
/** BPF programs that still use the old table have finished by then. */
const settleMs = 5;

const controlBytes = 24;
const zeroKey = Buffer.alloc(4);

/** In the bundle every file is in dist/; from sources (tests) dist/ is three levels up. */
function builtObject(): string | undefined {
  return ["./probes/connections.bpf.o", "../../../dist/probes/connections.bpf.o"]
    .map((path) => fileURLToPath(new URL(path, import.meta.url)))
    .find((path) => existsSync(path));
}

/** Throws `unsupported` with a message for users when this host does not allow it. */
export async function openConnectionWatch(options: ConnectionWatchOptions): Promise<ConnectionWatch> {
  const path = options.objectPath ?? builtObject();
  if (path === undefined) {
    const message = 'the BPF objects are not built; install clang (apt-get install clang), then run "npm run setup"';
    throw new CoralError({ code: "unsupported", message });
  }
  let object: BpfObject | undefined;
  try {
    object = await loadBpfObject({
      path,
      maxEntries: { tracked_connections: options.maxConnections ?? 65_536 },
      constants: scopeConstants(),
    });
    object.attach("on_state");
    return new Watch(object, options);
  } catch (error) {
    await object?.[Symbol.asyncDispose]();
    throw new CoralError({ code: "unsupported", message: explainBpfFailure(error, "raw_tp").text, cause: error });
  }
}

class Watch implements ConnectionWatch {
  readonly object: BpfObject;
  readonly #options: ConnectionWatchOptions;
  readonly #texts: AddressTexts = createAddressTexts();
  readonly #control: BpfMap;
  readonly #tables: readonly [BpfMap, BpfMap];
  readonly #listening: Disposable;
  readonly #timer: NodeJS.Timeout;
  #scan = { startNs: 0n, endNs: 0n };
  #active = 0n;
  #lostBefore = 0;
  #flushing: NodeJS.Timeout | undefined;
  #isClosed = false;

  constructor(object: BpfObject, options: ConnectionWatchOptions) {
    this.object = object;
    this.#options = options;
    this.#control = object.map("control");
    this.#tables = [object.map("peers_a"), object.map("peers_b")];
    object.watchRing("records", () => this.#report(null, false));
    this.#listening = options.timer.onTick(() => this.#report(null, false));
    this.#timer = setInterval(() => this.#switchTables(), options.flushMs ?? 10_000);
  }

  markScan(phase: "begin" | "end", mark: number): void {
    if (this.#isClosed) return;
    const now = process.hrtime.bigint();
    if (phase === "begin") this.#scan.startNs = now;
    else this.#scan.endNs = now;
    this.#writeControl();
    this.#report(mark, true);
  }

  #writeControl(): void {
    const value = Buffer.alloc(controlBytes);
    value.writeBigUInt64LE(this.#scan.startNs, 0);
    value.writeBigUInt64LE(this.#scan.endNs, 8);
    value.writeBigUInt64LE(this.#active, 16);
    this.#control.update(zeroKey, value);
  }

  /**
   * Reports everything in the ring, in messages of bounded size; the last one carries the mark. Reads the loss counter only with `withLost` or after
   * events: most calls find the ring empty, and the system call would be their most expensive part.
   */
  #report(mark: number | null, withLost: boolean): void {
    if (this.#isClosed) return;
    this.#endForgottenScan();
    for (;;) {
      const events = this.#drain();
      const isLast = events.length < maxEvents;
      const lost = isLast && (withLost || events.length > 0) ? this.#takeLost() : 0;
      if (events.length > 0 || lost > 0 || (isLast && mark !== null)) {
        this.#options.report({ kind: "connections", events, peers: [], lost, mark: isLast ? mark : null });
      }
      if (isLast) return;
    }
  }

  #drain(): ConnectionEvent[] {
    const events: ConnectionEvent[] = [];
    const ring = this.object.ring("records");
    if (ring.pendingBytes() === 0) return events;
    ring.drain(
      (view, offset, length) => {
        const event = readConnectionRecord(view, offset, length, this.#texts);
        if (event) events.push(event);
      },
      { maxRecords: maxEvents },
    );
    return events;
  }

  #endForgottenScan(): void {
    const { startNs, endNs } = this.#scan;
    const now = process.hrtime.bigint();
    if (startNs <= endNs || now - startNs < BigInt(maxScanMs) * 1_000_000n) return;
    this.#scan.endNs = now;
    this.#writeControl();
  }

  /** Switches the kernel to the other table, and reads this one a little later, when no program writes to it any more. */
  #switchTables(): void {
    if (this.#isClosed || this.#flushing) return;
    const full = this.#tables[Number(this.#active)];
    this.#active = 1n - this.#active;
    this.#writeControl();
    this.#report(null, true);
    this.#flushing = setTimeout(() => {
      this.#flushing = undefined;
      if (!this.#isClosed && full) this.#take(full);
    }, settleMs);
  }

  #take(table: BpfMap): void {
    let peers: PeerConnections[] = [];
    const send = (): void => {
      if (peers.length > 0) this.#options.report({ kind: "connections", events: [], peers, lost: 0, mark: null });
      peers = [];
    };
    table.takeAll((keys, keyAt, values, valueAt) => {
      const entry = readPeerEntry(keys, keyAt, values, valueAt, this.#texts);
      if (entry) peers.push(entry);
      if (peers.length >= maxEvents) send();
    });
    send();
  }

  /** Connections lost since the last call: neither reported nor summed up, or never tracked. */
  #takeLost(): number {
    const counters = this.object.map("counters");
    const value = Buffer.alloc(counters.valueBytes);
    if (!counters.lookup(zeroKey, value)) return 0;
    const now = Number(value.readBigUInt64LE(0)) + Number(value.readBigUInt64LE(8));
    const lost = now - this.#lostBefore;
    this.#lostBefore = now;
    return lost;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    if (this.#isClosed) return;
    this.#isClosed = true;
    this.#listening[Symbol.dispose]();
    clearInterval(this.#timer);
    clearTimeout(this.#flushing);
    await this.object[Symbol.asyncDispose]();
  }
}
