import { createSockDiag, type SockDiag } from "../../bpf/index.ts";
import type { AgentDiscoveryConfig } from "../../config/index.ts";
import type { SocketDumper } from "../../host/index.ts";

export interface SocketBackend {
  /** Follows the config: with `procfs` it refuses, and the tables are read. */
  dumper: SocketDumper;
}

/** How scans read sockets, whether or not the kernel also tells of connections: by netlink unless the config wants the tables. Made once; the config is asked at each scan. */
export function chooseSocketBackend(
  configured: () => AgentDiscoveryConfig["backend"],
  create: () => SockDiag = createSockDiag,
): SocketBackend {
  let netlink: SockDiag | undefined;
  return {
    dumper: {
      isWanted: () => configured() !== "procfs",
      open: (request) => {
        netlink ??= create();
        return netlink.open(request);
      },
    },
  };
}
