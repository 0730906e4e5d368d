/** Connection rows from kernel events. */

import { socketStates, type TrackedSocket } from "../../host/index.ts";
import type { SampleTime } from "../../store/signals/index.ts";
import type { ConnectionEvent, PeerConnections } from "../../traffic/index.ts";
import type { Owner } from "./connection-owner.ts";
import type { ConnectionRow } from "./connection-tracks.ts";

/** Converts kernel timestamps to stored time. */
export interface KernelTimes {
  /** Microseconds since 1970 of a time of CLOCK_MONOTONIC. */
  wallUs(monotonicNs: bigint): number;
  /** When the last scan finished reading sockets, CLOCK_MONOTONIC. */
  scanEndedNs: bigint;
}

/** Outcomes by reason, for the row's counters. */
export function reasonsOf(reason: ConnectionEvent["reason"]): Pick<ConnectionRow, "refused" | "reset" | "timed_out"> {
  return { refused: Number(reason === "refused"), reset: Number(reason === "reset"), timed_out: Number(reason === "timed-out") };
}

type Ends = Pick<ConnectionEvent, "role" | "networkNamespace" | "localAddress" | "remoteAddress">;

/** A closed socket in the shape of a scan, without an inode. */
export function socketOfEvent(
  { role, networkNamespace, localAddress, remoteAddress }: Ends,
  remotePort: number,
  localPort: number,
): TrackedSocket {
  return {
    inode: 0,
    protocol: "tcp",
    networkNamespace,
    localAddress,
    localPort,
    remoteAddress,
    remotePort,
    userId: 0,
    sinceScan: 0,
    lastScan: 0,
    state: socketStates.close,
    role,
    bytesSent: null,
    bytesReceived: null,
    rttUs: null,
    retransmits: null,
    searches: 0,
    nextSearchScan: 0,
  };
}

/**
 * Rows that count many connections of a peer: one for connections, one for failed attempts. Rows with the same addresses never share a
 * start time: both together identify a connection in the store.
 */
export function foldedKernelRows(
  peers: readonly PeerConnections[],
  times: KernelTimes,
  time: SampleTime,
  ownerOf: (socket: TrackedSocket, peer: PeerConnections) => Owner,
): ConnectionRow[] {
  const used = new Set<string>();
  return peers.flatMap((peer) => {
    const isServer = peer.role === "server";
    const socket = socketOfEvent(peer, isServer ? 0 : peer.serverPort, isServer ? peer.serverPort : 0);
    const owner = ownerOf(socket, peer);
    const firstUs = (): number => {
      let us = times.wallUs(peer.firstNs);
      const tuple = `${peer.role} ${peer.networkNamespace} ${peer.localAddress} ${peer.remoteAddress} ${peer.serverPort}`;
      while (used.has(`${tuple} ${us}`)) us++;
      used.add(`${tuple} ${us}`);
      return us;
    };
    const common = (state: "closed" | "failed", connections: number) => {
      const firstSeen = firstUs();
      return {
        at: time.at,
        mono_ms: time.mono_ms,
        role: peer.role,
        service: owner.service,
        pid: owner.pid,
        start_ticks: owner.startTicks,
        netns: peer.networkNamespace === 0 ? null : peer.networkNamespace,
        attribution: owner.attribution,
        protocol: "tcp",
        client_address: isServer ? peer.remoteAddress : peer.localAddress,
        client_port: 0,
        server_address: isServer ? peer.localAddress : peer.remoteAddress,
        server_port: peer.serverPort,
        state,
        first_seen: firstSeen,
        last_seen: Math.max(firstSeen, times.wallUs(peer.lastNs)),
        connections,
      };
    };
    // A refusal tuple an attempt and a reset tuple a connection; a timeout may end either.
    const attemptTimeouts = Math.min(peer.timedOut, Math.max(0, peer.failed - peer.refused));
    const noCounters = { bytes_sent: null, bytes_received: null, rtt_us: null, retransmits: null };
    const { bytesSent, bytesReceived, rttUs, retransmits, reset } = peer;
    const counters = { bytes_sent: bytesSent, bytes_received: bytesReceived, rtt_us: rttUs, retransmits };
    const rows: ConnectionRow[] = [];
    if (peer.connections > 0)
      rows.push({ ...common("closed", peer.connections), ...counters, refused: 0, reset, timed_out: peer.timedOut - attemptTimeouts });
    if (peer.failed > 0)
      rows.push({ ...common("failed", peer.failed), ...noCounters, refused: peer.refused, reset: 0, timed_out: attemptTimeouts });
    return rows;
  });
}
