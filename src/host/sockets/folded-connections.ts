import type { SocketProtocol } from "./socket-source.ts";
import type { TrackedSocket } from "./tracked-socket.ts";

/** Connections above the limit, aggregated by endpoints instead of tracked one by one. */
export interface FoldedConnections {
  networkNamespace: number;
  protocol: SocketProtocol;
  role: "client" | "server";
  localAddress: string;
  /** 0 for the client's end. */
  localPort: number;
  remoteAddress: string;
  /** 0 for the client's end. */
  remotePort: number;
  connections: number;
  bytesSent: number;
  bytesReceived: number;
}

const maxFolded = 5_000;

/** Roles must be set already. `cut` counts connections beyond the last row. */
export function foldConnections(sockets: readonly TrackedSocket[]): { folded: FoldedConnections[]; cut: number } {
  const rows = new Map<string, FoldedConnections>();
  let cut = 0;
  for (const socket of sockets) {
    const ends = endsOf(socket);
    const key = Object.values(ends).join(" ");
    let row = rows.get(key);
    if (!row) {
      if (rows.size >= maxFolded) {
        cut++;
        continue;
      }
      row = { ...ends, connections: 0, bytesSent: 0, bytesReceived: 0 };
      rows.set(key, row);
    }
    row.connections++;
    row.bytesSent += socket.bytesSent ?? 0;
    row.bytesReceived += socket.bytesReceived ?? 0;
  }
  return { folded: [...rows.values()], cut };
}

function endsOf(socket: TrackedSocket): Omit<FoldedConnections, "connections" | "bytesSent" | "bytesReceived"> {
  const { networkNamespace, protocol, localAddress, remoteAddress } = socket;
  const isServer = socket.role === "server";
  return {
    networkNamespace,
    protocol,
    role: isServer ? "server" : "client",
    localAddress,
    localPort: isServer ? socket.localPort : 0,
    remoteAddress,
    remotePort: isServer ? 0 : socket.remotePort,
  };
}
