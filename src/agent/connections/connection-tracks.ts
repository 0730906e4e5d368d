/** The connections that scans have seen and that are not over, each with the time of its next row; and those that ended a moment ago. */

import type { Clock } from "../../base/clock.ts";
import { type DiscoveryScan, socketStates, type TrackedSocket } from "../../host/index.ts";
import type { connection, RowOf, SampleTime } from "../../store/signals/index.ts";
import type { ConnectionEvent } from "../../traffic/index.ts";
import type { ServiceNamer } from "../naming/service-namer.ts";
import { type Owner, ownerOf } from "./connection-owner.ts";
import { type KernelTimes, reasonsOf } from "./kernel-rows.ts";

export type ConnectionRow = RowOf<typeof connection.columns>;

/** One scan, who is who in it, and its time for rows. */
export interface Sight {
  scan: DiscoveryScan;
  namer: ServiceNamer;
  time: SampleTime;
}

/** What a row tells. */
export interface SeenConnection {
  socket: TrackedSocket;
  firstSeenUs: number;
  lastSeenUs: number;
  owner: Owner;
}

interface Track extends SeenConnection {
  /** Monotonic. */
  nextRowMs: number;
  /** An attempt that was not answered yet; no row until it is. */
  isPending: boolean;
}

/** Who knows whose connections are that no scan found an owner of: they had ended before it looked. */
export interface OwnerSource {
  find(socket: TrackedSocket, pid: number): Owner;
  /** True when the event is kept for the next scan, which may know more; it comes again then. */
  putAside(event: ConnectionEvent): boolean;
}

/** An end that a scan has told: the kernel may still tell its last amounts. */
interface Ended {
  socket: TrackedSocket;
  row: ConnectionRow;
  /** Monotonic. */
  untilMs: number;
}

/** Sockets stay for a while after a scan no longer counts them: the other end has to agree. */
const endedMs = 300_000;
const maxEnded = 20_000;

export class ConnectionTracks {
  readonly #clock: Clock;
  readonly #refreshMs: number;
  /** Bounded by the scanner: one per connection that it keeps. In the order of their next row, as all wait equally long. */
  readonly #tracks = new Map<TrackedSocket, Track>();
  /** The same, by their ends; only where the kernel tells too. */
  readonly #byEnds = new Map<string, Track>();
  readonly #ended = new Map<string, Ended>();
  /** Those without an owner, or not answered yet: looked at in every scan. */
  readonly #unsettled = new Set<Track>();
  /** Set by the first news of the kernel. */
  #hasKernel = false;
  /** When the scan before looked: what is gone now was last seen then. */
  #lastScanUs = 0;

  constructor(clock: Clock, refreshMs: number) {
    this.#clock = clock;
    this.#refreshMs = refreshMs;
  }

  get size(): number {
    return this.#tracks.size;
  }

  /** From the first news on; what scans have found before is looked up too. */
  listenToKernel(): void {
    if (this.#hasKernel) return;
    this.#hasKernel = true;
    for (const track of this.#tracks.values()) if (track.socket.protocol === "tcp") this.#byEnds.set(endsOf(track.socket), track);
  }

  /** Rows of what this scan has found gone, settled, new, or due for another row. */
  follow(sight: Sight, onClient: (pid: number, owner: Owner) => void): ConnectionRow[] {
    const rows: (ConnectionRow | null)[] = sight.scan.closed.map((socket) => this.#close(socket, sight.time));
    for (const track of this.#unsettled) rows.push(this.#settle(track, sight));
    for (const socket of sight.scan.opened) rows.push(this.#open(socket, sight, onClient));
    rows.push(...this.#refresh(sight));
    this.#lastScanUs = sight.time.at;
    return rows.filter((row) => row !== null);
  }

  /** Rows for those that scans have told, and the events that are left. */
  closeByKernel(events: readonly ConnectionEvent[], time: SampleTime, times: KernelTimes, owners: OwnerSource) {
    const rows: ConnectionRow[] = [];
    const rest: ConnectionEvent[] = [];
    for (const event of events) {
      if (event.kind === "opened") continue;
      const ends = endsOf(event);
      const track = this.#byEnds.get(ends);
      const told = this.#ended.get(ends);
      const isOwnerMissing = (track?.owner ?? told?.row)?.attribution === null;
      if (isOwnerMissing && owners.putAside(event)) continue;
      if (track) {
        if (isOwnerMissing) track.owner = owners.find(track.socket, event.pid);
        this.#forget(track);
        track.lastSeenUs = Math.max(track.firstSeenUs, times.wallUs(event.atNs));
        rows.push(endedRow(track, event, time));
      }
      // Told by a scan already; the same row again, with what went through it at the very last.
      else if (told) {
        const owner = isOwnerMissing ? ownerColumns(owners.find(told.socket, event.pid)) : {};
        rows.push({ ...told.row, ...owner, at: time.at, mono_ms: time.mono_ms, ...lastAmounts(event) });
      } else rest.push(event);
      this.#ended.delete(ends);
    }
    return { rows, rest };
  }

  #written(track: Track): void {
    track.nextRowMs = this.#clock.monotonicMs() + this.#refreshMs;
    // To the end of the queue.
    this.#tracks.delete(track.socket);
    this.#tracks.set(track.socket, track);
  }

  #open(socket: TrackedSocket, { scan, namer, time }: Sight, onClient: (pid: number, owner: Owner) => void): ConnectionRow | null {
    const isPending = socket.state === socketStates.synSent;
    const owner = ownerOf(socket, scan, namer);
    if (socket.role !== "server" && owner.pid !== null) onClient(owner.pid, owner);
    const track: Track = { socket, firstSeenUs: time.at, lastSeenUs: time.at, owner, nextRowMs: 0, isPending };
    this.#written(track);
    if (this.#hasKernel && socket.protocol === "tcp") this.#byEnds.set(endsOf(socket), track);
    if (isPending || owner.attribution !== "process_fd") this.#unsettled.add(track);
    return isPending ? null : rowOf(track, "open", time);
  }

  /** Answered meanwhile, or its owner was found. */
  #settle(track: Track, { scan, namer, time }: Sight): ConnectionRow | null {
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
    if (this.#hasKernel && socket.protocol === "tcp") this.#rememberEnded(socket, row);
    return row;
  }

  *#refresh({ scan, namer, time }: Sight): Generator<ConnectionRow> {
    const nowMs = this.#clock.monotonicMs();
    const due: Track[] = [];
    for (const track of this.#tracks.values()) {
      if (track.nextRowMs > nowMs) break;
      due.push(track);
    }
    for (const track of due) {
      // A reloaded config, or a service that was connected meanwhile, may have given it another name.
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
    const ends = endsOf(track.socket);
    if (this.#byEnds.get(ends) === track) this.#byEnds.delete(ends);
  }

  #rememberEnded(socket: TrackedSocket, row: ConnectionRow): void {
    const nowMs = this.#clock.monotonicMs();
    for (const [ends, { untilMs }] of this.#ended) {
      if (untilMs > nowMs && this.#ended.size < maxEnded) break;
      this.#ended.delete(ends);
    }
    this.#ended.set(endsOf(socket), { socket, row, untilMs: nowMs + endedMs });
  }
}

/** The last row of a connection whose end the kernel has told. */
export function endedRow(seen: SeenConnection, event: ConnectionEvent, time: SampleTime): ConnectionRow {
  return { ...rowOf(seen, event.kind === "failed" ? "failed" : "closed", time), ...lastAmounts(event) };
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

function ownerColumns({ service, pid, startTicks, attribution }: Owner) {
  return { service, pid, start_ticks: startTicks, attribution };
}

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
