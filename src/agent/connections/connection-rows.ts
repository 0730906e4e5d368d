/**
 * Rows of connections: when first seen, when closed, and every few minutes in between. Kernel events and scans overlap, but each connection is
 * counted once: an event closes the connection that a scan has seen, and becomes a separate row where no scan has seen it.
 */

import type { Clock } from "../../base/clock.ts";
import type { DiscoveryScan, FoldedConnections, ProcessEntry, TrackedSocket } from "../../host/index.ts";
import type { SampleTime } from "../../store/signals/index.ts";
import type { ConnectionEvent, PeerConnections } from "../../traffic/index.ts";
import { servingOwners } from "../naming/listener-owners.ts";
import { noProcessTimes, type ProcessTimes } from "../naming/process-times.ts";
import type { ServiceNamer } from "../naming/service-namer.ts";
import { type Owner, ownerOfListener, unknownOwner } from "./connection-owner.ts";
import { type ConnectionRow, ConnectionTracks, endedRow, type NamedScan, type OwnerSource } from "./connection-tracks.ts";
import type { KernelBatch } from "./kernel-connections.ts";
import { foldedKernelRows, type KernelTimes, socketOfEvent } from "./kernel-rows.ts";
import { createRecentOwners, type RecentOwners } from "./recent-owners.ts";

/** Events from the kernel, with the conversion of their timestamps. */
export interface TimedKernelBatch extends KernelBatch {
  times: KernelTimes;
}

export interface ConnectionRowsOptions {
  clock: Clock;
  /** Default 5 min. */
  refreshMs?: number;
  /** Default: processes that had the same pid are not distinguished. */
  processTimes?: ProcessTimes;
}

/** The process that called connect(2), and when; CLOCK_MONOTONIC, 0 if unknown. */
interface KernelClient {
  pid: number;
  beganNs: bigint;
}

/** Events and peers that wait for the next scan, each; above it they are written with an unknown owner. */
const maxDeferred = 5_000;

/** Stateful: call `of` for every scan and `between` for kernel events that arrive while no scan runs. */
export class ConnectionRows {
  readonly #clock: Clock;
  readonly #refreshMs: number;
  readonly #tracks: ConnectionTracks;
  readonly #recentOwners: RecentOwners;
  readonly #processTimes: ProcessTimes;
  /** Events of processes that started after the scan listed processes: the next scan may know them. */
  #deferred: KernelBatch = { events: [], peers: [] };
  #nextFoldedMs = Number.NEGATIVE_INFINITY;

  constructor({ clock, refreshMs = 300_000, processTimes = noProcessTimes }: ConnectionRowsOptions) {
    this.#processTimes = processTimes;
    this.#clock = clock;
    this.#refreshMs = refreshMs;
    this.#tracks = new ConnectionTracks(clock, refreshMs);
    this.#recentOwners = createRecentOwners(clock);
  }

  /** Connections tracked now. */
  get size(): number {
    return this.#tracks.size;
  }

  /** Rows of a scan, and of the connections that the kernel reported closed before the scan's end. */
  of(scan: DiscoveryScan, namer: ServiceNamer, time: SampleTime, reported?: TimedKernelBatch): ConnectionRow[] {
    const named = { scan, namer, time };
    if (reported) this.#tracks.enableKernelEvents();
    // An event is deferred for one scan only; a process that has exited by then stays unknown.
    const deferred = this.#deferred;
    this.#deferred = { events: [], peers: [] };
    const kernel = reported && {
      ...reported,
      events: [...deferred.events, ...reported.events],
      peers: [...deferred.peers, ...reported.peers.filter((peer) => !this.#defer(this.#deferred.peers, peer, scan))],
    };
    // Kernel events first: the scan then does not close the same connections again.
    const wasDeferred = new Set(deferred.events);
    const owners = this.#owners(named, wasDeferred);
    const before = kernel ? this.#tracks.applyKernelEvents(kernel.events, time, kernel.times, owners) : { rows: [], rest: [] };
    const scanned = this.#tracks.applyScan(named, (pid, owner) => this.#recentOwners.add(pid, owner));
    const rows = [...before.rows, ...scanned, ...this.#folded(named)];
    if (!kernel) return rows;
    const isRunning = ({ pid, startTicks }: Owner): boolean => pid !== null && scan.processOf(pid)?.startTicks === startTicks;
    this.#recentOwners.scanned(isRunning, kernel.times.scanEndedNs);
    // First seen by this scan, and closed while it ran.
    const after = this.#tracks.applyKernelEvents(before.rest, time, kernel.times, owners);
    const unseen = after.rest.filter((event) => !owners.defer(event));
    return [...rows, ...after.rows, ...this.#unseen(unseen, named, kernel.times), ...this.#peerRows(kernel, named)];
  }

  /** Rows of kernel events that arrived between two scans; `scan` is the last one. */
  between(scan: DiscoveryScan, namer: ServiceNamer, time: SampleTime, kernel: TimedKernelBatch): ConnectionRow[] {
    const named = { scan, namer, time };
    this.#tracks.enableKernelEvents();
    const owners = this.#owners(named);
    const { rows, rest } = this.#tracks.applyKernelEvents(kernel.events, time, kernel.times, owners);
    const events = rest.filter((event) => !owners.defer(event));
    const peers = kernel.peers.filter((peer) => !this.#defer(this.#deferred.peers, peer, scan));
    return [...rows, ...this.#unseen(events, named, kernel.times), ...this.#peerRows({ ...kernel, peers }, named)];
  }

  #owners(named: NamedScan, wasDeferred: ReadonlySet<ConnectionEvent> = new Set()): OwnerSource {
    return {
      find: (socket, { pid, startedNs }) => this.#ownerByKernel(socket, { pid, beganNs: startedNs }, named),
      defer: (event) => !wasDeferred.has(event) && this.#defer(this.#deferred.events, event, named.scan),
    };
  }

  /** For a client, the process that called connect(2), even if it has exited since; for a server, the owner of the listener. */
  #ownerByKernel(socket: TrackedSocket, { pid, beganNs }: KernelClient, { scan, namer }: NamedScan): Owner {
    if (socket.role === "server") return ownerOfListener(socket, scan, namer);
    const entry = this.#processAt(pid, beganNs, scan);
    if (!entry) return this.#recentOwners.find(pid, beganNs) ?? { ...unknownOwner, pid: pid === 0 ? null : pid };
    const owner: Owner = { service: namer.ofProcess(pid)?.service ?? null, pid, startTicks: entry.startTicks, attribution: "process_fd" };
    this.#recentOwners.add(pid, owner);
    return owner;
  }

  /** Undefined when the scan does not know the process that had the pid when the connection began. */
  #processAt(pid: number, beganNs: bigint, scan: DiscoveryScan): ProcessEntry | undefined {
    const entry = scan.processOf(pid);
    const startedNs = entry && beganNs > 0n ? this.#processTimes.startedNs(entry.startTicks) : null;
    return startedNs !== null && beganNs < startedNs ? undefined : entry;
  }

  /** Connections that no scan has seen. One that is older than the hooks is skipped: its start time is unknown. */
  #unseen(events: readonly ConnectionEvent[], named: NamedScan, times: KernelTimes): ConnectionRow[] {
    const { scan, time } = named;
    const isFolded = ({ startedNs }: ConnectionEvent): boolean => scan.folded.length > 0 && startedNs <= times.scanEndedNs;
    return events
      .filter((event) => event.startedNs > 0n && event.role !== null && !isFolded(event) && scan.isSeenNamespace(event.networkNamespace))
      .map((event) => {
        const socket = socketOfEvent(event, event.remotePort, event.localPort);
        const firstSeenUs = times.wallUs(event.startedNs);
        const lastSeenUs = Math.max(firstSeenUs, times.wallUs(event.atNs));
        return endedRow(
          { socket, firstSeenUs, lastSeenUs, owner: this.#ownerByKernel(socket, { pid: event.pid, beganNs: event.startedNs }, named) },
          event,
          time,
        );
      });
  }

  #folded({ scan, namer, time }: NamedScan): ConnectionRow[] {
    if (scan.folded.length === 0 || this.#clock.monotonicMs() < this.#nextFoldedMs) return [];
    this.#nextFoldedMs = this.#clock.monotonicMs() + this.#refreshMs;
    return scan.folded.map((group) => foldedRow(group, scan, namer, time));
  }

  /** Defers an item whose process or namespace the next scan may know; false when it is known, or too many are deferred. */
  #defer<T extends ConnectionEvent | PeerConnections>(list: T[], item: T, scan: DiscoveryScan): boolean {
    const beganNs = "startedNs" in item ? item.startedNs : item.firstNs;
    const isOwnerKnown =
      item.role !== "client" ||
      item.pid === 0 ||
      this.#processAt(item.pid, beganNs, scan) !== undefined ||
      this.#recentOwners.find(item.pid, beganNs) !== undefined;
    if ((isOwnerKnown && scan.isSeenNamespace(item.networkNamespace)) || list.length >= maxDeferred) return false;
    list.push(item);
    return true;
  }

  #peerRows(kernel: TimedKernelBatch, named: NamedScan): ConnectionRow[] {
    return foldedKernelRows(
      // The kernel reports the whole machine; an agent in a container reports only the namespaces that it can see.
      kernel.peers.filter(({ networkNamespace }) => named.scan.isSeenNamespace(networkNamespace)),
      kernel.times,
      named.time,
      (socket, { pid, firstNs }) => this.#ownerByKernel(socket, { pid, beganNs: firstNs }, named),
    );
  }
}

/** One row for many connections above the limit; it has no single start time or owner. */
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
