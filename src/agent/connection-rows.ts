/**
 * Rows of connections: when first seen, when gone, and every few minutes in between. Where the kernel tells ends too, each connection is still
 * told once: one that a scan has seen is closed by what the kernel says of its end, and one that no scan has seen gets a row of its own.
 */

import type { Clock } from "../base/clock.ts";
import { type DiscoveryScan, type FoldedConnections, socketStates, type TrackedSocket } from "../host/index.ts";
import type { connection, RowOf, SampleTime } from "../store/index.ts";
import type { ConnectionEvent, PeerConnections } from "../traffic/index.ts";
import { createCallerMemory } from "./caller-memory.ts";
import type { KernelBatch } from "./kernel-connections.ts";
import { foldedKernelRows, type KernelTimes, reasonsOf, socketOfEvent } from "./kernel-rows.ts";
import { servingOwners } from "./listener-owners.ts";
import type { ServiceNamer } from "./service-namer.ts";

export type ConnectionRow = RowOf<typeof connection.columns>;

export interface ConnectionRows {
  /** What this scan has to tell, and with it the kernel about connections that ended until the end of the scan. */
  of(scan: DiscoveryScan, namer: ServiceNamer, time: SampleTime, kernel?: KernelNews): ConnectionRow[];
  /** What the kernel has to tell between two scans; `scan` is the last one. */
  between(scan: DiscoveryScan, namer: ServiceNamer, time: SampleTime, kernel: KernelNews): ConnectionRow[];
  /** Connections followed now. */
  readonly size: number;
}

/** What the kernel told, and what its clock says in stored time. */
export interface KernelNews extends KernelBatch {
  times: KernelTimes;
}

/** Whose end it is, and how that is known. */
export interface Owner {
  service: string | null;
  pid: number | null;
  startTicks: number | null;
  attribution: "process_fd" | "listening_socket" | "config" | null;
}

interface Track {
  socket: TrackedSocket;
  firstSeenUs: number;
  lastSeenUs: number;
  owner: Owner;
  /** Monotonic. */
  nextRowMs: number;
  /** An attempt that was not answered yet; no row until it is. */
  isPending: boolean;
}

/** An end that a scan has told: the kernel may still tell its last amounts. */
interface Ended {
  row: ConnectionRow;
  /** Monotonic. */
  untilMs: number;
}

/** Sockets stay for a while after a scan no longer counts them: the other end has to agree. */
const endedMs = 300_000;
const maxEnded = 20_000;
const maxWaiting = 5_000;

export const nobody: Owner = { service: null, pid: null, startTicks: null, attribution: null };

export interface ConnectionRowsOptions {
  clock: Clock;
  /** Default 5 min. */
  refreshMs?: number;
}

export function createConnectionRows(options: ConnectionRowsOptions): ConnectionRows {
  const { clock, refreshMs = 300_000 } = options;
  /** Bounded by the scanner: one per connection that it keeps. In the order of their next row, as all wait equally long. */
  const tracks = new Map<TrackedSocket, Track>();
  /** The same, by their ends; only where the kernel tells too. */
  const byEnds = new Map<string, Track>();
  const ended = new Map<string, Ended>();
  const callers = createCallerMemory(clock);
  /** Of processes that started after a scan had read who there is: the next one may know them. */
  let waiting: KernelBatch = { events: [], peers: [] };
  /** Set by the first news of the kernel. */
  let hasKernel = false;
  /** Those without an owner, or not answered yet: looked at in every scan. */
  const unsettled = new Set<Track>();
  let nextFoldedMs = Number.NEGATIVE_INFINITY;
  /** When the scan before looked: what is gone now was last seen then. */
  let lastScanUs = 0;

  const rowOf = (track: Track, state: "open" | "closed" | "failed", time: SampleTime): ConnectionRow => {
    const { socket, owner } = track;
    const isServer = socket.role === "server";
    return {
      at: time.at,
      mono_ms: time.mono_ms,
      role: isServer ? "server" : "client",
      service: owner.service,
      pid: owner.pid,
      start_ticks: owner.startTicks,
      netns: socket.networkNamespace === 0 ? null : socket.networkNamespace,
      attribution: owner.attribution,
      protocol: socket.protocol,
      client_address: isServer ? socket.remoteAddress : socket.localAddress,
      client_port: isServer ? socket.remotePort : socket.localPort,
      server_address: isServer ? socket.localAddress : socket.remoteAddress,
      server_port: isServer ? socket.localPort : socket.remotePort,
      state,
      first_seen: track.firstSeenUs,
      last_seen: track.lastSeenUs,
      connections: 1,
      bytes_sent: socket.bytesSent,
      bytes_received: socket.bytesReceived,
      rtt_us: socket.rttUs,
      retransmits: socket.retransmits,
      refused: null,
      reset: null,
      timed_out: null,
    };
  };

  const written = (track: Track): void => {
    track.nextRowMs = clock.monotonicMs() + refreshMs;
    // To the end of the queue.
    tracks.delete(track.socket);
    tracks.set(track.socket, track);
  };

  const open = (socket: TrackedSocket, scan: DiscoveryScan, namer: ServiceNamer, time: SampleTime): ConnectionRow | null => {
    const isPending = socket.state === socketStates.synSent;
    const owner = ownerOf(socket, scan, namer);
    if (socket.role !== "server" && owner.pid !== null) callers.remember(owner.pid, owner);
    const track: Track = { socket, firstSeenUs: time.at, lastSeenUs: time.at, owner, nextRowMs: 0, isPending };
    written(track);
    if (hasKernel && socket.protocol === "tcp") byEnds.set(endsOf(socket), track);
    if (isPending || owner.attribution !== "process_fd") unsettled.add(track);
    return isPending ? null : rowOf(track, "open", time);
  };

  /** Answered meanwhile, or its owner was found. */
  const settle = (track: Track, scan: DiscoveryScan, namer: ServiceNamer, time: SampleTime): ConnectionRow | null => {
    const wasAnswered = track.isPending && track.socket.state !== socketStates.synSent;
    const isOwnerFound = track.owner.attribution !== "process_fd" && scan.ownersOf(track.socket).length > 0;
    if (!wasAnswered && !isOwnerFound) return null;
    track.isPending &&= !wasAnswered;
    if (isOwnerFound) track.owner = ownerOf(track.socket, scan, namer);
    if (!track.isPending && track.owner.attribution === "process_fd") unsettled.delete(track);
    if (track.isPending) return null;
    track.lastSeenUs = time.at;
    written(track);
    return rowOf(track, "open", time);
  };

  const close = (socket: TrackedSocket, time: SampleTime): ConnectionRow | null => {
    const track = tracks.get(socket);
    if (!track) return null;
    forget(track);
    track.lastSeenUs = Math.max(track.lastSeenUs, lastScanUs);
    const row = rowOf(track, track.isPending ? "failed" : "closed", time);
    if (hasKernel && socket.protocol === "tcp") rememberEnded(socket, row);
    return row;
  };

  const forget = (track: Track): void => {
    tracks.delete(track.socket);
    unsettled.delete(track);
    const ends = endsOf(track.socket);
    if (byEnds.get(ends) === track) byEnds.delete(ends);
  };

  const rememberEnded = (socket: TrackedSocket, row: ConnectionRow): void => {
    const nowMs = clock.monotonicMs();
    for (const [ends, { untilMs }] of ended) {
      if (untilMs > nowMs && ended.size < maxEnded) break;
      ended.delete(ends);
    }
    ended.set(endsOf(socket), { row, untilMs: nowMs + endedMs });
  };

  /** From the first news on; what scans have found before is looked up too. */
  const listenToKernel = (): void => {
    if (hasKernel) return;
    hasKernel = true;
    for (const track of tracks.values()) if (track.socket.protocol === "tcp") byEnds.set(endsOf(track.socket), track);
  };

  /** The end of a connection that a scan has seen. */
  const closeByKernel = (track: Track, event: ConnectionEvent, time: SampleTime, times: KernelTimes): ConnectionRow => {
    forget(track);
    track.lastSeenUs = Math.max(track.firstSeenUs, times.wallUs(event.atNs));
    return { ...rowOf(track, event.kind === "failed" ? "failed" : "closed", time), ...lastAmounts(event) };
  };

  /** Rows for those that scans have told, and the events that are left. */
  const settleByKernel = (events: readonly ConnectionEvent[], time: SampleTime, times: KernelTimes) => {
    const rows: ConnectionRow[] = [];
    const rest: ConnectionEvent[] = [];
    for (const event of events) {
      if (event.kind === "opened") continue;
      const ends = endsOf(event);
      const track = byEnds.get(ends);
      const told = ended.get(ends);
      if (track) rows.push(closeByKernel(track, event, time, times));
      // Told by a scan already; the same row again, with what went through it at the very last.
      else if (told) rows.push({ ...told.row, at: time.at, mono_ms: time.mono_ms, ...lastAmounts(event) });
      else rest.push(event);
      ended.delete(ends);
    }
    return { rows, rest };
  };

  /** The process that called connect(2), also when it has ended meanwhile, or whoever listens. */
  const kernelOwner = (socket: TrackedSocket, pid: number, scan: DiscoveryScan, namer: ServiceNamer): Owner => {
    if (socket.role === "server") return ownerOfListener(socket, scan, namer);
    const entry = scan.processOf(pid);
    if (!entry) return callers.find(pid) ?? { ...nobody, pid: pid === 0 ? null : pid };
    const owner: Owner = { service: namer.ofProcess(pid)?.service ?? null, pid, startTicks: entry.startTicks, attribution: "process_fd" };
    callers.remember(pid, owner);
    return owner;
  };

  /** Those that no scan has seen. What is older than the hook, and was in no scan either, began at a time that nobody watched. */
  const unseenRows = (
    events: readonly ConnectionEvent[],
    scan: DiscoveryScan,
    namer: ServiceNamer,
    time: SampleTime,
    times: KernelTimes,
  ) => {
    const isFolded = ({ startedNs }: ConnectionEvent): boolean => scan.folded.length > 0 && startedNs <= times.scanEndedNs;
    return events
      .filter((event) => event.startedNs > 0n && event.role !== null && !isFolded(event) && scan.isSeenNamespace(event.networkNamespace))
      .map((event): ConnectionRow => {
        const socket = socketOfEvent(event, event.remotePort, event.localPort);
        const firstSeenUs = times.wallUs(event.startedNs);
        const lastSeenUs = Math.max(firstSeenUs, times.wallUs(event.atNs));
        const owner = kernelOwner(socket, event.pid, scan, namer);
        const track: Track = { socket, firstSeenUs, lastSeenUs, owner, nextRowMs: 0, isPending: false };
        return { ...rowOf(track, event.kind === "failed" ? "failed" : "closed", time), ...lastAmounts(event) };
      });
  };

  const refresh = function* (scan: DiscoveryScan, namer: ServiceNamer, time: SampleTime): Generator<ConnectionRow> {
    const nowMs = clock.monotonicMs();
    const due: Track[] = [];
    for (const track of tracks.values()) {
      if (track.nextRowMs > nowMs) break;
      due.push(track);
    }
    for (const track of due) {
      // A reloaded config, or a service that was connected meanwhile, may have given it another name.
      const owner = ownerOf(track.socket, scan, namer);
      if (owner.attribution !== null) track.owner = owner;
      track.lastSeenUs = time.at;
      written(track);
      if (!track.isPending) yield rowOf(track, "open", time);
    }
  };

  const folded = (scan: DiscoveryScan, namer: ServiceNamer, time: SampleTime): ConnectionRow[] => {
    if (scan.folded.length === 0 || clock.monotonicMs() < nextFoldedMs) return [];
    nextFoldedMs = clock.monotonicMs() + refreshMs;
    return scan.folded.map((group) => foldedRow(group, scan, namer, time));
  };

  /** Puts aside what the next scan can say more about; true when it was. */
  const isPutAside = <T extends ConnectionEvent | PeerConnections>(list: T[], item: T, scan: DiscoveryScan): boolean => {
    const isKnown =
      item.role !== "client" || item.pid === 0 || scan.processOf(item.pid) !== undefined || callers.find(item.pid) !== undefined;
    if ((isKnown && scan.isSeenNamespace(item.networkNamespace)) || list.length >= maxWaiting) return false;
    list.push(item);
    return true;
  };

  const sums = (kernel: KernelNews, scan: DiscoveryScan, namer: ServiceNamer, time: SampleTime): ConnectionRow[] =>
    foldedKernelRows(
      // The kernel tells of the whole machine; an agent in a container tells of what it sees.
      kernel.peers.filter(({ networkNamespace }) => scan.isSeenNamespace(networkNamespace)),
      kernel.times,
      time,
      (socket, pid) => kernelOwner(socket, pid, scan, namer),
    );

  return {
    of: (scan, namer, time, told) => {
      if (told) listenToKernel();
      // Each waits for one scan; who has ended by then stays unknown.
      const waited = waiting;
      waiting = { events: [], peers: [] };
      const kernel = told && {
        ...told,
        events: [...waited.events, ...told.events],
        peers: [...waited.peers, ...told.peers.filter((peer) => !isPutAside(waiting.peers, peer, scan))],
      };
      // Before the scan's own: what the kernel closes here the scan has not to close again.
      const before = kernel ? settleByKernel(kernel.events, time, kernel.times) : { rows: [], rest: [] };
      const rows: (ConnectionRow | null)[] = [...before.rows, ...scan.closed.map((socket) => close(socket, time))];
      for (const track of unsettled) rows.push(settle(track, scan, namer, time));
      for (const socket of scan.opened) rows.push(open(socket, scan, namer, time));
      rows.push(...refresh(scan, namer, time), ...folded(scan, namer, time));
      if (kernel) {
        // Seen by this scan for the first time, and ended while it went on.
        const after = settleByKernel(before.rest, time, kernel.times);
        const hasWaited = new Set(waited.events);
        const unseen = after.rest.filter((event) => hasWaited.has(event) || !isPutAside(waiting.events, event, scan));
        rows.push(...after.rows, ...unseenRows(unseen, scan, namer, time, kernel.times), ...sums(kernel, scan, namer, time));
      }
      lastScanUs = time.at;
      return rows.filter((row) => row !== null);
    },
    between: (scan, namer, time, kernel) => {
      listenToKernel();
      const { rows, rest } = settleByKernel(kernel.events, time, kernel.times);
      const events = rest.filter((event) => !isPutAside(waiting.events, event, scan));
      const peers = kernel.peers.filter((peer) => !isPutAside(waiting.peers, peer, scan));
      return [...rows, ...unseenRows(events, scan, namer, time, kernel.times), ...sums({ ...kernel, peers }, scan, namer, time)];
    },
    get size() {
      return tracks.size;
    },
  };
}

/** Both ends in their namespace: what scans and the kernel know a connection by. UDP has no ends that the kernel tells. */
function endsOf(end: Pick<TrackedSocket, "networkNamespace" | "localAddress" | "localPort" | "remoteAddress" | "remotePort">): string {
  return `${end.networkNamespace} ${end.localAddress} ${end.localPort} ${end.remoteAddress} ${end.remotePort}`;
}

function lastAmounts(event: ConnectionEvent) {
  return {
    ...(event.kind === "failed"
      ? {}
      : { bytes_sent: event.bytesSent, bytes_received: event.bytesReceived, rtt_us: event.rttUs, retransmits: event.retransmits }),
    ...reasonsOf(event.reason),
  };
}

function ownerOf(socket: TrackedSocket, scan: DiscoveryScan, namer: ServiceNamer): Owner {
  const isServer = socket.role === "server";
  const [pid] = scan.ownersOf(socket);
  const entry = pid === undefined ? undefined : scan.processOf(pid);
  if (entry) {
    const name = isServer ? namer.atServer(socket, entry.pid) : namer.ofProcess(entry.pid);
    return { service: name?.service ?? null, pid: entry.pid, startTicks: entry.startTicks, attribution: "process_fd" };
  }
  if (!isServer) return nobody;
  return ownerOfListener(socket, scan, namer);
}

/** Whoever listens is taken to serve what came in there. */
function ownerOfListener(socket: TrackedSocket, scan: DiscoveryScan, namer: ServiceNamer): Owner {
  const [listener] = scan.listenersOf(socket);
  if (!listener) return nobody;
  const owners = servingOwners(scan, listener);
  const name = namer.atServer(socket, null);
  if (owners.length === 0) {
    const isSaid = name?.namedBy === "manual" || name?.namedBy === "config";
    return { service: name?.service ?? null, pid: null, startTicks: null, attribution: isSaid ? "config" : "listening_socket" };
  }
  // With one process there is no doubt which; of several, any may have accepted it.
  const only = owners.length === 1 ? scan.processOf(owners[0] ?? 0) : undefined;
  return { service: name?.service ?? null, pid: only?.pid ?? null, startTicks: only?.startTicks ?? null, attribution: "listening_socket" };
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
