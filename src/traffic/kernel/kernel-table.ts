/**
 * Reads the kernel's table of request kinds (probes/requests/request-table.h) once per window, in batches, as differences to the window before. A kind
 * whose name has not arrived yet waits; a kind without requests for a while is deleted, which frees its slot in the kernel.
 */

import { coarseLayout, fineLayout, type SparseHistogram, sparse } from "../../base/latency-histogram.ts";
import type { BpfMap, BpfObject } from "../../bpf/index.ts";
import { protocolOfNumber, type TrafficProtocol } from "../../model/protocols.ts";
import { type LossKind, type PeerName, type RequestGroup, type TrafficName, type TrafficRole } from "../core/messages.ts";
import { isHttpError } from "../protocols/http/http-status.ts";
import { otherRoute } from "../requests/route-limiter.ts";
import { unknownRoute } from "../requests/route-template.ts";
import { incrementControl } from "./kernel-controls.ts";
import {
  fingerprints,
  httpMethods,
  kernelLosses,
  requestKeyLayout,
  requestSlotLayout,
  requestStatsLayout,
  slotUsed,
  statuses,
  sweepLayout,
  tlsFlag,
} from "./kernel-layout.ts";
import { addressText, decodeLearnRecord, type KernelName, KernelNames } from "./kernel-names.ts";

export interface KernelTableOptions {
  object: Pick<BpfObject, "map" | "run">;
  /** A response whose last byte is older is complete. Default 1 s. */
  quietNs?: bigint;
  /** A kind is deleted after this time without requests. Default 60 s. */
  idleNs?: bigint;
}

/** What the kernel counted since the last call. */
export interface KernelWindow {
  requests: RequestGroup[];
  losses: Map<LossKind, number>;
  names: TrafficName[];
  peerNames: PeerName[];
}

/** Windows that a kind waits for its name, which may still be in the ring. */
const maxWaits = 2;
const words = requestStatsLayout.sizeBytes / 4;
/** Fill level of the kernel's `learned` map above which unused names are evicted. */
const fullShare = 0.75;

/** Hash tables for kinds without a slot: named ones, and those that arrived when the first was full. */
const hashTables = ["requests", "other_requests"] as const;

/** Where the kernel keeps a kind: a number is an index of `request_slots`. */
type Home = number | (typeof hashTables)[number];

/** One kind of requests in the kernel's table. */
interface Kind {
  key: Buffer;
  home: Home;
  fingerprint: bigint;
  pid: number;
  role: TrafficRole;
  protocol: TrafficProtocol;
  isTls: boolean;
  serverPort: number;
  peerAddress: string;
  status: number;
  method: number;
  /** As last reported. */
  totals: Uint32Array;
  changedNs: bigint;
  waits: number;
}

export class KernelTable {
  readonly names: KernelNames;
  readonly #object: Pick<BpfObject, "map" | "run">;
  readonly #tables: Record<(typeof hashTables)[number], BpfMap>;
  readonly #slots: BpfMap;
  readonly #losses: BpfMap;
  readonly #learned: BpfMap;
  readonly #controls: BpfMap;
  readonly #quietNs: bigint;
  readonly #idleNs: bigint;
  readonly #kinds = new Map<string, Kind>();
  readonly #lossTotals = kernelLosses.map(() => 0n);
  /** Entries of the kernel's `learned` map. More than `names`: the kernel emits a name once per process and end of a connection. */
  #emittedNames = 0;
  /** Kinds of the last window did not fit. */
  #wasFull = false;
  readonly #sweep = Buffer.alloc(sweepLayout.sizeBytes);

  constructor({ object, quietNs = 1_000_000_000n, idleNs = 60_000_000_000n }: KernelTableOptions) {
    this.#object = object;
    this.#tables = { requests: object.map("requests"), other_requests: object.map("other_requests") };
    this.#slots = object.map("request_slots");
    this.#losses = object.map("losses");
    this.#quietNs = quietNs;
    this.#idleNs = idleNs;
    this.#learned = object.map("learned");
    this.#controls = object.map("controls");
    this.names = new KernelNames({ maxNames: this.#learned.maxEntries });
  }

  /** Takes a LEARN record of the ring; false if it cannot be used. */
  onLearn(view: DataView, at: number, length: number, ring: Buffer): boolean {
    this.#emittedNames++;
    const record = decodeLearnRecord(view, at, length, ring);
    return record !== null && this.names.learn(record);
  }

  /** Counts responses that have gone idle. Returns their number, and that of tracked connections. About 20 ns per connection. */
  sweep(nowNs: bigint): { finished: number; connections: number } {
    const context = this.#sweep;
    context.writeBigUInt64LE(nowNs > this.#quietNs ? nowNs - this.#quietNs : 0n, sweepLayout.responded_before_ns);
    context.writeBigUInt64LE(0n, sweepLayout.finished);
    this.#object.run("sweep_requests", context);
    return { finished: context.readUInt32LE(sweepLayout.finished), connections: context.readUInt32LE(sweepLayout.connections) };
  }

  /** Returns what was counted since the last call. Drain the ring first, so that names are known. */
  collect(nowNs: bigint): KernelWindow {
    const window: KernelWindow = { requests: [], losses: this.#takeLosses(), names: [], peerNames: [] };
    const hosts = new HostCounts();
    const idle: Kind[] = [];
    const isFull = window.losses.has("routes-full");
    // One service with many routes can fill the table for all. Once it was full, kinds without a request in this window are deleted.
    const idleNs = isFull || this.#wasFull ? 0n : this.#idleNs;
    this.#wasFull = isFull;
    const visit = (home: Home, keys: Buffer, keyAt: number, values: Buffer, valueAt: number): void => {
      const kind = this.#kindAt(home, keys, keyAt, nowNs);
      if (kind === null) return;
      const { totals } = kind;
      // Every request adds to the sum of durations.
      const sumAt = valueAt + requestStatsLayout.duration_sum_ns;
      if (values.readUInt32LE(sumAt) === totals[0] && values.readUInt32LE(sumAt + 4) === totals[1]) {
        if (nowNs - kind.changedNs > idleNs) idle.push(kind);
        return;
      }
      kind.changedNs = nowNs;
      const name = this.#nameOf(kind);
      if (name === null) return;
      const group = difference(kind, name, this.#statusOf(kind), wordsAt(values, valueAt));
      window.requests.push(group);
      hosts.add(this.names, kind, group.count);
    };
    this.#slots.readAll((indexes, indexAt, values, at) => {
      if (values.readUInt32LE(at + requestSlotLayout.state) !== slotUsed) return;
      visit(indexes.readUInt32LE(indexAt), values, at + requestSlotLayout.key, values, at + requestSlotLayout.stats);
    });
    for (const table of hashTables) {
      this.#tables[table].readAll((keys, keyAt, values, valueAt) => visit(table, keys, keyAt, values, valueAt));
    }
    for (const kind of idle) this.#delete(kind);
    if (this.#emittedNames > this.#learned.maxEntries * fullShare) this.#evictUnusedNames();
    hosts.into(window);
    // The kernel counts a request again for each table in which it found no slot.
    const others = window.requests.reduce((sum, { route, count }) => (route === otherRoute ? sum + count : sum), 0);
    if (others > 0) window.losses.set("routes-full", others);
    else window.losses.delete("routes-full");
    return window;
  }

  /** A kind that is in two tables at once is two kinds with the same name. Null for an unknown protocol. */
  #kindAt(home: Home, keys: Buffer, keyAt: number, nowNs: bigint): Kind | null {
    const text = kindText(home, keys, keyAt);
    const known = this.#kinds.get(text);
    if (known !== undefined) return known;
    const added = decodeKey(keys, keyAt, home, nowNs);
    if (added !== null) this.#kinds.set(text, added);
    return added;
  }

  /**
   * Evicts unused names from the kernel's `learned` map, which short-lived routes would fill otherwise. Postgres statements go last: the kernel emits
   * them when they are prepared, and never again.
   */
  #evictUnusedNames(): void {
    const used = new Set([...this.#kinds.values()].map(({ fingerprint }) => fingerprint));
    const learned: { key: Buffer; fingerprint: bigint }[] = [];
    this.#learned.readAll((keys, keyAt, values, valueAt) => {
      learned.push({ key: Buffer.from(keys.subarray(keyAt, keyAt + 8)), fingerprint: values.readBigUInt64LE(valueAt) });
    });
    const unused = learned.filter(({ fingerprint }) => !used.has(fingerprint));
    const others = unused.filter(({ fingerprint }) => this.names.protocol(fingerprint) !== "postgres");
    const evicted = others.length > 0 ? others : unused;
    for (const { key, fingerprint } of evicted) {
      this.#learned.delete(key);
      this.names.forget(fingerprint);
    }
    this.#emittedNames = learned.length - evicted.length;
    incrementControl(this.#controls, "generation");
  }

  /** Null: not known yet; the kind waits. */
  #nameOf(kind: Kind): KernelName | null {
    if (kind.fingerprint === fingerprints.other) return { method: "", route: otherRoute };
    if (kind.fingerprint === fingerprints.unread) return { method: "", route: unknownRoute };
    const name = this.names.name(kind.fingerprint);
    if (name !== undefined) return name;
    if (kind.waits++ < maxWaits) return null;
    return { method: kind.protocol === "http" ? (httpMethods[kind.method - 1] ?? "") : "", route: unknownRoute };
  }

  #statusOf({ protocol, status }: Kind): string {
    if (status === statuses.noReply) return "no-reply";
    if (protocol === "http") return status === statuses.none ? "" : String(status);
    if (status === statuses.none) return "";
    if (protocol === "postgres") return status.toString(36).toUpperCase().padStart(5, "0");
    return this.names.status(status) ?? "error";
  }

  #delete(kind: Kind): void {
    if (typeof kind.home === "number") this.#free(kind.home);
    else this.#tables[kind.home].delete(kind.key);
    this.#kinds.delete(kindText(kind.home, kind.key, 0));
  }

  #free(slot: number): void {
    const key = Buffer.alloc(4);
    key.writeUInt32LE(slot);
    this.#slots.update(key, Buffer.alloc(requestSlotLayout.sizeBytes));
  }

  #takeLosses(): Map<LossKind, number> {
    const losses = new Map<LossKind, number>();
    const key = Buffer.alloc(4);
    const value = Buffer.alloc(8);
    for (const [index, loss] of kernelLosses.entries()) {
      key.writeUInt32LE(index);
      if (!this.#losses.lookup(key, value)) continue;
      const total = value.readBigUInt64LE();
      const count = Number(total - (this.#lossTotals[index] ?? 0n));
      this.#lossTotals[index] = total;
      if (count > 0) losses.set(loss, count);
    }
    return losses;
  }
}

function kindText(home: Home, keys: Buffer, at: number): string {
  return `${home} ${keys.toString("latin1", at, at + requestKeyLayout.sizeBytes)}`;
}

/** Null for an unknown protocol. */
function decodeKey(keys: Buffer, at: number, home: Home, nowNs: bigint): Kind | null {
  const layout = requestKeyLayout;
  const protocol = protocolOfNumber(keys.readUInt8(at + layout.protocol));
  if (protocol === undefined) return null;
  return {
    key: Buffer.from(keys.subarray(at, at + layout.sizeBytes)),
    home,
    fingerprint: keys.readBigUInt64LE(at + layout.fingerprint),
    pid: keys.readUInt32LE(at + layout.tgid),
    role: keys.readUInt8(at + layout.role) === 1 ? "server" : "client",
    protocol,
    isTls: (keys.readUInt8(at + layout.flags) & tlsFlag) !== 0,
    serverPort: keys.readUInt16LE(at + layout.server_port),
    peerAddress: addressText(keys.subarray(at + layout.remote, at + layout.remote + 16)),
    status: keys.readUInt32LE(at + layout.status),
    method: keys.readUInt8(at + layout.method),
    totals: new Uint32Array(words),
    changedNs: nowNs,
    waits: 0,
  };
}

function wordsAt(values: Buffer, at: number): Uint32Array {
  const from = values.byteOffset + at;
  if (from % 4 === 0) return new Uint32Array(values.buffer, from, words);
  return new Uint32Array(Uint8Array.prototype.slice.call(values, at, at + words * 4).buffer);
}

/** Returns what was added to the totals of the kind, and updates them. */
function difference(kind: Kind, { method, route }: KernelName, status: string, now: Uint32Array): RequestGroup {
  const { totals, pid, role, protocol, isTls, serverPort, peerAddress } = kind;
  const layout = requestStatsLayout;
  const duration = histogramSince(now, totals, layout.duration / 4, fineLayout.bucketCount);
  const queue = histogramSince(now, totals, layout.queue / 4, coarseLayout.bucketCount);
  const firstByte = histogramSince(now, totals, layout.first_byte / 4, coarseLayout.bucketCount);
  const group: RequestGroup = {
    pid,
    role,
    protocol,
    isTls,
    serverPort,
    peerAddress,
    method,
    route,
    status,
    isError: isError(kind),
    count: sum(duration),
    requestBytes: sumSince(now, totals, layout.request_bytes / 4),
    responseBytes: sumSince(now, totals, layout.response_bytes / 4),
    durationSumNs: sumSince(now, totals, layout.duration_sum_ns / 4),
    queueSumNs: sumSince(now, totals, layout.queue_sum_ns / 4),
    queueCount: sum(queue),
    duration,
    queue,
    firstByte,
  };
  totals.set(now);
  return group;
}

function isError({ protocol, role, status }: Kind): boolean {
  if (status === statuses.noReply) return true;
  return protocol === "http" ? isHttpError(status, role) : status !== statuses.none;
}

/** Counts wrap at 32 bits. */
function histogramSince(now: Uint32Array, before: Uint32Array, from: number, buckets: number): SparseHistogram {
  const counts = new Uint32Array(buckets);
  for (let index = 0; index < buckets; index++) counts[index] = (now[from + index] ?? 0) - (before[from + index] ?? 0);
  return sparse(counts);
}

/** Difference of 64-bit totals, which fits a number even when the totals do not. */
function sumSince(now: Uint32Array, before: Uint32Array, at: number): number {
  const low = (now[at] ?? 0) - (before[at] ?? 0);
  const high = ((now[at + 1] ?? 0) - (before[at + 1] ?? 0)) | 0;
  return high * 2 ** 32 + low;
}

function sum({ counts }: SparseHistogram): number {
  let total = 0;
  for (const count of counts) total += count;
  return total;
}

/** Counts requests by requested host. */
class HostCounts {
  readonly #served = new Map<string, TrafficName>();
  readonly #peers = new Map<string, PeerName>();

  add(names: KernelNames, { fingerprint, pid, role, serverPort, peerAddress }: Kind, count: number): void {
    const host = names.host(fingerprint, pid, role, serverPort, peerAddress);
    if (host === undefined) return;
    if (role === "client") {
      this.#peers.set(`${peerAddress} ${serverPort} ${host}`, { address: peerAddress, port: serverPort, name: host, source: "http_host" });
      return;
    }
    const key = `${pid} ${serverPort} ${host}`;
    const known = this.#served.get(key);
    if (known === undefined) this.#served.set(key, { pid, port: serverPort, source: "http_host", name: host, requests: count });
    else known.requests += count;
  }

  into(window: KernelWindow): void {
    window.names.push(...this.#served.values());
    window.peerNames.push(...this.#peers.values());
  }
}
