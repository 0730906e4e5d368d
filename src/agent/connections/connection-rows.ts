/**
 * Rows of connections: when first seen, when gone, and every few minutes in between. Where the kernel tells ends too, each connection is still
 * told once: one that a scan has seen is closed by what the kernel says of its end, and one that no scan has seen gets a row of its own.
 */

import type { Clock } from "../../base/clock.ts";
import type { DiscoveryScan, FoldedConnections, TrackedSocket } from "../../host/index.ts";
import type { SampleTime } from "../../store/signals/index.ts";
import type { ConnectionEvent, PeerConnections } from "../../traffic/index.ts";
import { servingOwners } from "../naming/listener-owners.ts";
import type { ServiceNamer } from "../naming/service-namer.ts";
import { type CallerMemory, createCallerMemory } from "./caller-memory.ts";
import { nobody, type Owner, ownerOfListener } from "./connection-owner.ts";
import { type ConnectionRow, ConnectionTracks, endedRow, type OwnerSource, type Sight } from "./connection-tracks.ts";
import type { KernelBatch } from "./kernel-connections.ts";
import { foldedKernelRows, type KernelTimes, socketOfEvent } from "./kernel-rows.ts";

/** What the kernel told, and what its clock says in stored time. */
export interface KernelNews extends KernelBatch {
  times: KernelTimes;
}

export interface ConnectionRowsOptions {
  clock: Clock;
  /** Default 5 min. */
  refreshMs?: number;
}

const maxWaiting = 5_000;

export class ConnectionRows {
  readonly #clock: Clock;
  readonly #refreshMs: number;
  readonly #tracks: ConnectionTracks;
  readonly #callers: CallerMemory;
  /** Of processes that started after a scan had read who there is: the next one may know them. */
  #waiting: KernelBatch = { events: [], peers: [] };
  #nextFoldedMs = Number.NEGATIVE_INFINITY;

  constructor({ clock, refreshMs = 300_000 }: ConnectionRowsOptions) {
    this.#clock = clock;
    this.#refreshMs = refreshMs;
    this.#tracks = new ConnectionTracks(clock, refreshMs);
    this.#callers = createCallerMemory(clock);
  }

  /** Connections followed now. */
  get size(): number {
    return this.#tracks.size;
  }

  /** What this scan has to tell, and with it the kernel about connections that ended until the end of the scan. */
  of(scan: DiscoveryScan, namer: ServiceNamer, time: SampleTime, told?: KernelNews): ConnectionRow[] {
    const sight = { scan, namer, time };
    if (told) this.#tracks.listenToKernel();
    // Each waits for one scan; who has ended by then stays unknown.
    const waited = this.#waiting;
    this.#waiting = { events: [], peers: [] };
    const kernel = told && {
      ...told,
      events: [...waited.events, ...told.events],
      peers: [...waited.peers, ...told.peers.filter((peer) => !this.#isPutAside(this.#waiting.peers, peer, scan))],
    };
    // Before the scan's own: what the kernel closes here the scan has not to close again.
    const hasWaited = new Set(waited.events);
    const owners = this.#owners(sight, hasWaited);
    const before = kernel ? this.#tracks.closeByKernel(kernel.events, time, kernel.times, owners) : { rows: [], rest: [] };
    const followed = this.#tracks.follow(sight, (pid, owner) => this.#callers.remember(pid, owner));
    const rows = [...before.rows, ...followed, ...this.#folded(sight)];
    if (!kernel) return rows;
    // Seen by this scan for the first time, and ended while it went on.
    const after = this.#tracks.closeByKernel(before.rest, time, kernel.times, owners);
    const unseen = after.rest.filter((event) => !owners.putAside(event));
    return [...rows, ...after.rows, ...this.#unseen(unseen, sight, kernel.times), ...this.#sums(kernel, sight)];
  }

  /** What the kernel has to tell between two scans; `scan` is the last one. */
  between(scan: DiscoveryScan, namer: ServiceNamer, time: SampleTime, kernel: KernelNews): ConnectionRow[] {
    const sight = { scan, namer, time };
    this.#tracks.listenToKernel();
    const owners = this.#owners(sight);
    const { rows, rest } = this.#tracks.closeByKernel(kernel.events, time, kernel.times, owners);
    const events = rest.filter((event) => !owners.putAside(event));
    const peers = kernel.peers.filter((peer) => !this.#isPutAside(this.#waiting.peers, peer, scan));
    return [...rows, ...this.#unseen(events, sight, kernel.times), ...this.#sums({ ...kernel, peers }, sight)];
  }

  #owners(sight: Sight, hasWaited: ReadonlySet<ConnectionEvent> = new Set()): OwnerSource {
    return {
      find: (socket, pid) => this.#ownerByKernel(socket, pid, sight),
      putAside: (event) => !hasWaited.has(event) && this.#isPutAside(this.#waiting.events, event, sight.scan),
    };
  }

  /** The process that called connect(2), also when it has ended meanwhile, or whoever listens. */
  #ownerByKernel(socket: TrackedSocket, pid: number, { scan, namer }: Sight): Owner {
    if (socket.role === "server") return ownerOfListener(socket, scan, namer);
    const entry = scan.processOf(pid);
    if (!entry) return this.#callers.find(pid) ?? { ...nobody, pid: pid === 0 ? null : pid };
    const owner: Owner = { service: namer.ofProcess(pid)?.service ?? null, pid, startTicks: entry.startTicks, attribution: "process_fd" };
    this.#callers.remember(pid, owner);
    return owner;
  }

  /** Those that no scan has seen. What is older than the hook, and was in no scan either, began at a time that nobody watched. */
  #unseen(events: readonly ConnectionEvent[], sight: Sight, times: KernelTimes): ConnectionRow[] {
    const { scan, time } = sight;
    const isFolded = ({ startedNs }: ConnectionEvent): boolean => scan.folded.length > 0 && startedNs <= times.scanEndedNs;
    return events
      .filter((event) => event.startedNs > 0n && event.role !== null && !isFolded(event) && scan.isSeenNamespace(event.networkNamespace))
      .map((event) => {
        const socket = socketOfEvent(event, event.remotePort, event.localPort);
        const firstSeenUs = times.wallUs(event.startedNs);
        const lastSeenUs = Math.max(firstSeenUs, times.wallUs(event.atNs));
        return endedRow({ socket, firstSeenUs, lastSeenUs, owner: this.#ownerByKernel(socket, event.pid, sight) }, event, time);
      });
  }

  #folded({ scan, namer, time }: Sight): ConnectionRow[] {
    if (scan.folded.length === 0 || this.#clock.monotonicMs() < this.#nextFoldedMs) return [];
    this.#nextFoldedMs = this.#clock.monotonicMs() + this.#refreshMs;
    return scan.folded.map((group) => foldedRow(group, scan, namer, time));
  }

  /** Puts aside what the next scan can say more about; true when it was. */
  #isPutAside<T extends ConnectionEvent | PeerConnections>(list: T[], item: T, scan: DiscoveryScan): boolean {
    const isKnown =
      item.role !== "client" || item.pid === 0 || scan.processOf(item.pid) !== undefined || this.#callers.find(item.pid) !== undefined;
    if ((isKnown && scan.isSeenNamespace(item.networkNamespace)) || list.length >= maxWaiting) return false;
    list.push(item);
    return true;
  }

  #sums(kernel: KernelNews, sight: Sight): ConnectionRow[] {
    return foldedKernelRows(
      // The kernel tells of the whole machine; an agent in a container tells of what it sees.
      kernel.peers.filter(({ networkNamespace }) => sight.scan.isSeenNamespace(networkNamespace)),
      kernel.times,
      sight.time,
      (socket, pid) => this.#ownerByKernel(socket, pid, sight),
    );
  }
}

function foldedRow(group: FoldedConnections, scan: DiscoveryScan, namer: ServiceNamer, time: SampleTime): ConnectionRow {
  const isServer = group.role === "server";
  const listener = isServer
    ? [...scan.listeners.values()].find(
        (one) => one.networkNamespace === group.networkNamespace && one.protocol === group.protocol && one.localPort === group.localPort,
      )
    : undefined;
  const [pid = null] = listener ? servingOwners(scan, listener) : [];
  return {
    ...time,
    role: group.role,
    service: listener ? namer.atListener(listener, pid).service : null,
    pid: null,
    start_ticks: null,
    netns: group.networkNamespace === 0 ? null : group.networkNamespace,
    attribution: listener ? "listening_socket" : null,
    protocol: group.protocol,
    client_address: isServer ? group.remoteAddress : group.localAddress,
    client_port: 0,
    server_address: isServer ? group.localAddress : group.remoteAddress,
    server_port: isServer ? group.localPort : group.remotePort,
    state: "open",
    first_seen: time.at,
    last_seen: time.at,
    connections: group.connections,
    bytes_sent: group.bytesSent,
    bytes_received: group.bytesReceived,
    rtt_us: null,
    retransmits: null,
    refused: null,
    reset: null,
    timed_out: null,
  };
}
