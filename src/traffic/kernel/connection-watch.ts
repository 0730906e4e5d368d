/** Watches TCP connections in the kernel, in the traffic process: loads probes/tcp/connections.bpf.c, tells what ends, and takes the marks of scans. */

import { existsSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { CoralError } from "../../base/errors.ts";
import { type AddressTexts, createAddressTexts } from "../../base/ip-address.ts";
import { type BpfMap, type BpfObject, explainBpfFailure, loadBpfObject } from "../../bpf/index.ts";
import { ownPidNamespace } from "../../host/index.ts";
import type { Beat } from "../core/beat.ts";
import type { ConnectionEvent, ConnectionsReport, PeerConnections } from "../core/messages.ts";
import { readConnectionRecord, readPeerEntry } from "./connection-records.ts";

export interface ConnectionWatchOptions {
  /** Sockets that are followed at the same time. Default 65,536. */
  maxConnections?: number;
  report: (report: ConnectionsReport) => void;
  /** When the ring is looked at, unless it fills before. */
  beat: Pick<Beat, "on">;
  objectPath?: string;
  /** For tests: how often sums are reported. Default 10 s. */
  flushMs?: number;
}

export interface ConnectionWatch extends AsyncDisposable {
  /** A scan of sockets begins or has ended; reported with this mark, after everything that ended before. */
  markScan(phase: "begin" | "end", mark: number): void;
  readonly object: BpfObject;
}

/** Events of one report; a message of a megabyte would hold up the others. */
const maxEvents = 2_000;
/** A scan that is not said to have ended is over by then: its agent has other worries. */
const maxScanMs = 120_000;
/** Programs that have seen the table's switch before it was turned are done with it by then. */
const settleMs = 5;

const controlBytes = 24;
const zeroKey = Buffer.alloc(4);

/** In the bundle every file lies in dist/; from sources (tests) dist/ is three levels up. */
function builtObject(): string | undefined {
  return ["./probes/connections.bpf.o", "../../../dist/probes/connections.bpf.o"]
    .map((path) => fileURLToPath(new URL(path, import.meta.url)))
    .find((path) => existsSync(path));
}

/** Throws `unsupported` with words for people when this host does not allow it. */
export async function openConnectionWatch(options: ConnectionWatchOptions): Promise<ConnectionWatch> {
  const path = options.objectPath ?? builtObject();
  if (path === undefined) {
    const message = 'the BPF objects are not built; install clang (apt-get install clang), then run "npm run setup"';
    throw new CoralError({ code: "unsupported", message });
  }
  let object: BpfObject | undefined;
  try {
    const namespace = ownPidNamespace();
    const isNested = namespace !== null && !namespace.isFirst;
    object = await loadBpfObject({
      path,
      maxEntries: { tracked_connections: options.maxConnections ?? 65_536 },
      ...(isNested ? { constants: { pid_namespace_device: namespace.device, pid_namespace_inode: namespace.inode } } : {}),
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
    object.watchRing("records", () => this.#tell(null, false));
    this.#listening = options.beat.on(() => this.#tell(null, false));
    this.#timer = setInterval(() => this.#switchTables(), options.flushMs ?? 10_000);
  }

  markScan(phase: "begin" | "end", mark: number): void {
    if (this.#isClosed) return;
    const now = process.hrtime.bigint();
    if (phase === "begin") this.#scan.startNs = now;
    else this.#scan.endNs = now;
    this.#writeControl();
    this.#tell(mark, true);
  }

  #writeControl(): void {
    const value = Buffer.alloc(controlBytes);
    value.writeBigUInt64LE(this.#scan.startNs, 0);
    value.writeBigUInt64LE(this.#scan.endNs, 8);
    value.writeBigUInt64LE(this.#active, 16);
    this.#control.update(zeroKey, value);
  }

  /**
   * Everything in the ring, in reports of a bounded size; the last one carries the mark. What was lost is asked for when something came, and every few
   * seconds: most looks find nothing, and a call of the kernel would be the dearest part of them.
   */
  #tell(mark: number | null, asksForLost: boolean): void {
    if (this.#isClosed) return;
    this.#endForgottenScan();
    for (;;) {
      const events = this.#drain();
      const isLast = events.length < maxEvents;
      const lost = isLast && (asksForLost || events.length > 0) ? this.#takeLost() : 0;
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

  /** The kernel goes on with the other table, and what this one has is taken a little later, so that nothing is added to it meanwhile. */
  #switchTables(): void {
    if (this.#isClosed || this.#flushing) return;
    const full = this.#tables[Number(this.#active)];
    this.#active = 1n - this.#active;
    this.#writeControl();
    this.#tell(null, true);
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

  /** Not told and not added up, or not followed at all. */
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
