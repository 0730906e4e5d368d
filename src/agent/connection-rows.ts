/** Rows of connections: when first seen, when gone, and every few minutes in between. */

import type { Clock } from "../base/clock.ts";
import { type DiscoveryScan, type FoldedConnections, socketStates, type TrackedSocket } from "../host/index.ts";
import type { connection, RowOf, SampleTime } from "../store/index.ts";
import { servingOwners } from "./listener-owners.ts";
import type { ServiceNamer } from "./service-namer.ts";

export type ConnectionRow = RowOf<typeof connection.columns>;

export interface ConnectionRows {
  /** What this scan has to tell. */
  of(scan: DiscoveryScan, namer: ServiceNamer, time: SampleTime): ConnectionRow[];
  /** Connections followed now. */
  readonly size: number;
}

/** Whose end it is, and how that is known. */
interface Owner {
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

const nobody: Owner = { service: null, pid: null, startTicks: null, attribution: null };

export interface ConnectionRowsOptions {
  clock: Clock;
  /** Default 5 min. */
  refreshMs?: number;
}

export function createConnectionRows(options: ConnectionRowsOptions): ConnectionRows {
  const { clock, refreshMs = 300_000 } = options;
  /** Bounded by the scanner: one per connection that it keeps. In the order of their next row, as all wait equally long. */
  const tracks = new Map<TrackedSocket, Track>();
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
    const track: Track = { socket, firstSeenUs: time.at, lastSeenUs: time.at, owner, nextRowMs: 0, isPending };
    written(track);
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
    tracks.delete(socket);
    unsettled.delete(track);
    track.lastSeenUs = Math.max(track.lastSeenUs, lastScanUs);
    return rowOf(track, track.isPending ? "failed" : "closed", time);
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

  return {
    of: (scan, namer, time) => {
      const rows: (ConnectionRow | null)[] = scan.closed.map((socket) => close(socket, time));
      for (const track of unsettled) rows.push(settle(track, scan, namer, time));
      for (const socket of scan.opened) rows.push(open(socket, scan, namer, time));
      rows.push(...refresh(scan, namer, time), ...folded(scan, namer, time));
      lastScanUs = time.at;
      return rows.filter((row) => row !== null);
    },
    get size() {
      return tracks.size;
    },
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
