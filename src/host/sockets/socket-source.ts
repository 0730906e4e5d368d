/** Where sockets are read from: the kernel's text tables, or netlink if a dumper is given. */

export type SocketProtocol = "tcp" | "udp";

/** States of the kernel that matter here, as `/proc/net/tcp` and netlink number them. */
export const socketStates = { established: 1, synSent: 2, close: 7, closeWait: 8, listen: 10 } as const;

/** One socket while it is visited. The object is reused for the next one: copy values to keep. */
export interface SocketView {
  readonly inode: number;
  readonly state: number;
  readonly localPort: number;
  readonly remotePort: number;
  /** Uid that created the socket. */
  readonly userId: number;
  /** Null where the source does not report it. */
  readonly bytesSent: number | null;
  readonly bytesReceived: number | null;
  readonly rttUs: number | null;
  /** Retransmitted segments since the connection began. */
  readonly retransmits: number | null;
  /** IPv4 in IPv6 comes as IPv4. */
  localAddress(): string;
  remoteAddress(): string;
}

export type VisitSocket = (socket: SocketView) => void;

/** A dump in progress; see SocketDumper. */
export interface SocketDump {
  /** Visits the next chunk; false if it was the last. Throws if the kernel refuses. */
  next(visit: VisitSocket): boolean;
  close(): void;
}

/** Reads sockets faster and with counters (sock_diag). Injected, because this room makes no FFI calls. */
export interface SocketDumper {
  /** False while the text tables are preferred; checked at each read. Default true. */
  isWanted?: () => boolean;
  /** Throws if dumps are not possible here, or not for this protocol. The descriptors are those of `/proc/<pid>/ns/net`; null: the agent's own. */
  open(request: {
    namespace: { fd: number; ownFd: number } | null;
    protocol: SocketProtocol;
    family: 4 | 6;
    states: readonly number[];
  }): SocketDump;
}
