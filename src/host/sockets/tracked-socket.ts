import type { LocalEnd } from "./listener-index.ts";
import type { SocketProtocol, SocketView } from "./socket-source.ts";

/** One socket, from the scan that first found it to the one that missed it. Values are those of the last scan. */
export interface TrackedSocket {
  readonly inode: number;
  readonly protocol: SocketProtocol;
  /** Inode of the network namespace; 0 if access is denied. */
  readonly networkNamespace: number;
  /** IPv4 in IPv6 is IPv4 here. */
  readonly localAddress: string;
  readonly localPort: number;
  readonly remoteAddress: string;
  readonly remotePort: number;
  /** Uid that created the socket. */
  readonly userId: number;
  readonly sinceScan: number;
  lastScan: number;
  /** As the kernel numbers it; see socketStates. */
  state: number;
  /** `server` when the local end is, or was, a listener. Null for listeners. */
  role: "client" | "server" | null;
  bytesSent: number | null;
  bytesReceived: number | null;
  rttUs: number | null;
  retransmits: number | null;
  /** Failed searches for its owner, and the scan of the next attempt. */
  searches: number;
  nextSearchScan: number;
}

export function trackSocket(view: SocketView, protocol: SocketProtocol, networkNamespace: number, scan: number): TrackedSocket {
  return {
    inode: view.inode,
    protocol,
    networkNamespace,
    localAddress: view.localAddress(),
    localPort: view.localPort,
    remoteAddress: view.remoteAddress(),
    remotePort: view.remotePort,
    userId: view.userId,
    sinceScan: scan,
    lastScan: scan,
    state: view.state,
    role: null,
    bytesSent: view.bytesSent,
    bytesReceived: view.bytesReceived,
    rttUs: view.rttUs,
    retransmits: view.retransmits,
    searches: 0,
    nextSearchScan: scan,
  };
}

/** False if the inode belongs to another socket by now. */
export function updateSocket(socket: TrackedSocket, view: SocketView, scan: number): boolean {
  if (socket.localPort !== view.localPort || socket.remotePort !== view.remotePort) return false;
  socket.lastScan = scan;
  socket.state = view.state;
  socket.bytesSent = view.bytesSent ?? socket.bytesSent;
  socket.bytesReceived = view.bytesReceived ?? socket.bytesReceived;
  socket.rttUs = view.rttUs ?? socket.rttUs;
  socket.retransmits = view.retransmits ?? socket.retransmits;
  return true;
}

export function localEndOf({ networkNamespace, protocol, localAddress, localPort }: TrackedSocket): LocalEnd {
  return { networkNamespace, protocol, address: localAddress, port: localPort };
}
