import type { AgentDiscoveryConfig } from "../config/index.ts";
import type { SocketDumper } from "../host/index.ts";
import { createSockDiag, type SockDiag } from "../probes/index.ts";

export interface SocketBackend {
  /** Follows the config: with `procfs` it refuses, and the tables are read. */
  dumper: SocketDumper;
  /** Why the configured backend is not used, ready to print; null when it is. */
  note(): string | null;
}

/** Sockets by netlink unless the config wants the tables. Made once; the config is asked at each scan. */
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
    note: () =>
      configured() === "ebpf" ? "The eBPF backend for connections is not part of this version: sockets are scanned instead" : null,
  };
}
