/** Open connections that scans have seen, each with the time of its next row, and recently closed ones. */

import type { Clock } from "../../base/clock.ts";
import { type DiscoveryScan, socketStates, type TrackedSocket } from "../../host/index.ts";
import type { connection, RowOf, SampleTime } from "../../store/signals/index.ts";
import type { ConnectionEvent } from "../../traffic/index.ts";
import type { ServiceNamer } from "../naming/service-namer.ts";
import { type Owner, ownerOf } from "./connection-owner.ts";
import { type KernelTimes, reasonsOf } from "./kernel-rows.ts";

export type ConnectionRow = RowOf<typeof connection.columns>;

/** A scan with the names of its processes and the timestamp of its rows. */
export interface NamedScan {
  scan: DiscoveryScan;
  namer: ServiceNamer;
  time: SampleTime;
}

/** The content of a row. */
export interface SeenConnection {
  socket: TrackedSocket;
  firstSeenUs: number;
  lastSeenUs: number;
  owner: Owner;
}

interface Track extends SeenConnection {
  /** Monotonic. */
  nextRowMs: number;
  /** A SYN without a reply; it has no row until the reply arrives. */
  isPending: boolean;
}

/** Finds owners of connections that closed before a scan could find the process that held them. */
export interface OwnerSource {
  find(socket: TrackedSocket, event: ConnectionEvent): Owner;
  /** True when the event is kept until the next scan, which may know the process. */
  defer(event: ConnectionEvent): boolean;
}

/** A connection closed by a scan: the kernel may still report its final counters. */
interface Ended {
  socket: TrackedSocket;
  row: ConnectionRow;
  /** Monotonic. */
  untilMs: number;
}

/** The kernel closes a socket some time after scans stop listing it: the peer has to acknowledge the close. */
const keptEndedMs = 300_000;
/** Closed connections that may still get their final counters. */
const maxEnded = 20_000;

/** Keyed by socket for scans, and by address pair for kernel events. */
export class ConnectionTracks {
  readonly #clock: Clock;
  readonly #refreshMs: number;
  /** Bounded by the scanner, which limits connections. Ordered by the time of their next row: all wait equally long. */
  readonly #tracks = new Map<TrackedSocket, Track>();
  /** The same, by address pair; filled only with kernel events. */
  readonly #byTuple = new Map<string, Track>();
  readonly #ended = new Map<string, Ended>();
  /** Tracks without an owner or without a reply: checked in every scan. */
  readonly #unsettled = new Set<Track>();
  /** Set by the first kernel events. */
  #hasKernel = false;
  /** Time of the previous scan: connections gone now were last seen then. */
  #lastScanUs = 0;

  constructor(clock: Clock, refreshMs: number) {
    this.#clock = clock;
    this.#refreshMs = refreshMs;
  }

  get size(): number {
    return this.#tracks.size;
  }

  /** Call before the first kernel events; indexes the connections that earlier scans have found. */
  enableKernelEvents(): void {
    if (this.#hasKernel) return;
    this.#hasKernel = true;
    for (const track of this.#tracks.values()) if (track.socket.protocol === "tcp") this.#byTuple.set(tupleOf(track.socket), track);
  }

  /** Rows of connections that this scan found closed, settled, new, or due for another row. */
  applyScan(named: NamedScan, onClient: (pid: number, owner: Owner) => void): ConnectionRow[] {
    const rows: (ConnectionRow | null)[] = named.scan.closed.map((socket) => this.#close(socket, named.time));
    for (const track of this.#unsettled) rows.push(this.#settle(track, named));
    for (const socket of named.scan.opened) rows.push(this.#open(socket, named, onClient));
    rows.push(...this.#refresh(named));
    this.#lastScanUs = named.time.at;
    return rows.filter((row) => row !== null);
  }

  /** Closes the connections that scans have seen; returns their rows, and the events of all others. */
  applyKernelEvents(events: readonly ConnectionEvent[], time: SampleTime, times: KernelTimes, owners: OwnerSource) {
    const rows: ConnectionRow[] = [];
    const rest: ConnectionEvent[] = [];
    for (const event of events) {
      if (event.kind === "opened") continue;
      const tuple = tupleOf(event);
      const track = this.#byTuple.get(tuple);
      const closed = this.#ended.get(tuple);
      const isOwnerMissing = (track?.owner ?? closed?.row)?.attribution === null;
      if (isOwnerMissing && owners.defer(event)) continue;
      if (track) {
        if (isOwnerMissing) track.owner = owners.find(track.socket, event);
        this.#forget(track);
        track.lastSeenUs = Math.max(track.firstSeenUs, times.wallUs(event.atNs));
        rows.push(endedRow(track, event, time));
      }
      // A scan has closed it already: write the same row again, with the final counters.
      else if (closed) {
        const owner = isOwnerMissing ? ownerColumns(owners.find(closed.socket, event)) : {};
        rows.push({ ...closed.row, ...owner, at: time.at, mono_ms: time.mono_ms, ...finalCounters(event) });
      } else rest.push(event);
      this.#ended.delete(tuple);
    }
    return { rows, rest };
  }

  #written(track: Track): void {
    track.nextRowMs = this.#clock.monotonicMs() + this.#refreshMs;
    // To the end of the queue.
    this.#tracks.delete(track.socket);
    this.#tracks.set(track.socket, track);
  }

  #open(socket: TrackedSocket, { scan, namer, time }: NamedScan, onClient: (pid: number, owner: Owner) => void): ConnectionRow | null {
    const isPending = socket.state === socketStates.synSent;
    const owner = ownerOf(socket, scan, namer);
    if (socket.role !== "server" && owner.pid !== null) onClient(owner.pid, owner);
    const track: Track = { socket, firstSeenUs: time.at, lastSeenUs: time.at, owner, nextRowMs: 0, isPending };
    this.#written(track);
    if (this.#hasKernel && socket.protocol === "tcp") this.#byTuple.set(tupleOf(socket), track);
    if (isPending || owner.attribution !== "process_fd") this.#unsettled.add(track);
    return isPending ? null : rowOf(track, "open", time);
  }

  /** A row if the peer replied or the owner was found since the last scan. */
  #settle(track: Track, { scan, namer, time }: NamedScan): ConnectionRow | null {
    const wasAnswered = track.isPending && track.socket.state !== socketStates.synSent;
    const isOwnerFound = track.owner.attribution !== "process_fd" && scan.ownersOf(track.socket).length > 0;
    if (!wasAnswered && !isOwnerFound) return null;
    track.isPending &&= !wasAnswered;
    if (isOwnerFound) track.owner = ownerOf(track.socket, scan, namer);
    if (!track.isPending && track.owner.attribution === "process_fd") this.#unsettled.delete(track);
    if (track.isPending) return null;
    track.lastSeenUs = time.at;
    this.#written(track);
    return rowOf(track, "open", time);
  }

  #close(socket: TrackedSocket, time: SampleTime): ConnectionRow | null {
    const track = this.#tracks.get(socket);
    if (!track) return null;
    this.#forget(track);
    track.lastSeenUs = Math.max(track.lastSeenUs, this.#lastScanUs);
    const row = rowOf(track, track.isPending ? "failed" : "closed", time);
    if (this.#hasKernel && socket.protocol === "tcp") this.#keepEnded(socket, row);
    return row;
  }

  *#refresh({ scan, namer, time }: NamedScan): Generator<ConnectionRow> {
    const nowMs = this.#clock.monotonicMs();
    const due: Track[] = [];
    for (const track of this.#tracks.values()) {
      if (track.nextRowMs > nowMs) break;
      due.push(track);
    }
    for (const track of due) {
      // The name may have changed with a reloaded config or `coral connect`.
      const owner = ownerOf(track.socket, scan, namer);
      if (owner.attribution !== null) track.owner = owner;
      track.lastSeenUs = time.at;
      this.#written(track);
      if (!track.isPending) yield rowOf(track, "open", time);
    }
  }

  #forget(track: Track): void {
    this.#tracks.delete(track.socket);
    this.#unsettled.delete(track);
    const tuple = tupleOf(track.socket);
    if (this.#byTuple.get(tuple) === track) this.#byTuple.delete(tuple);
  }

  #keepEnded(socket: TrackedSocket, row: ConnectionRow): void {
    const nowMs = this.#clock.monotonicMs();
    for (const [tuple, { untilMs }] of this.#ended) {
      if (untilMs > nowMs && this.#ended.size < maxEnded) break;
      this.#ended.delete(tuple);
    }
    this.#ended.set(tupleOf(socket), { socket, row, untilMs: nowMs + keptEndedMs });
  }
}

/** The last row of a connection whose end the kernel reported. */
export function endedRow(seen: SeenConnection, event: ConnectionEvent, time: SampleTime): ConnectionRow {
  return { ...rowOf(seen, event.kind === "failed" ? "failed" : "closed", time), ...finalCounters(event) };
}

/** Both addresses in their namespace identify a connection for scans and the kernel. The kernel reports no tuple of UDP. */
function tupleOf(end: Pick<TrackedSocket, "networkNamespace" | "localAddress" | "localPort" | "remoteAddress" | "remotePort">): string {
  return `${end.networkNamespace} ${end.localAddress} ${end.localPort} ${end.remoteAddress} ${end.remotePort}`;
}

function finalCounters(event: ConnectionEvent) {
  return {
    ...(event.kind === "failed"
      ? {}
      : { bytes_sent: event.bytesSent, bytes_received: event.bytesReceived, rtt_us: event.rttUs, retransmits: event.retransmits }),
    ...reasonsOf(event.reason),
  };
}

function ownerColumns({ service, pid, startTicks, attribution }: Owner) {
  return { service, pid, start_ticks: startTicks, attribution };
}

/** Rows name the client's and the server's end, whichever of them is on this host. */
function rowOf(seen: SeenConnection, state: "open" | "closed" | "failed", time: SampleTime): ConnectionRow {
  const { socket, owner } = seen;
  const isServer = socket.role === "server";
  return {
    at: time.at,
    mono_ms: time.mono_ms,
    role: isServer ? "server" : "client",
    ...ownerColumns(owner),
    netns: socket.networkNamespace === 0 ? null : socket.networkNamespace,
    protocol: socket.protocol,
    client_address: isServer ? socket.remoteAddress : socket.localAddress,
    client_port: isServer ? socket.remotePort : socket.localPort,
    server_address: isServer ? socket.localAddress : socket.remoteAddress,
    server_port: isServer ? socket.localPort : socket.remotePort,
    state,
    first_seen: seen.firstSeenUs,
    last_seen: seen.lastSeenUs,
    connections: 1,
    bytes_sent: socket.bytesSent,
    bytes_received: socket.bytesReceived,
    rtt_us: socket.rttUs,
    retransmits: socket.retransmits,
    refused: null,
    reset: null,
    timed_out: null,
  };
}
