import { createSockDiag, type SockDiag } from "../../bpf/index.ts";
import type { AgentDiscoveryConfig } from "../../config/index.ts";
import type { SocketDumper } from "../../host/index.ts";

/**
 * Reads sockets by netlink (sock_diag), unless the config selects `procfs`: then scans fall back to the tables in /proc. The config is read
 * before each scan, so that a reload takes effect; the netlink socket is opened with the first dump.
 */
export function createSocketDumper(
  backend: () => AgentDiscoveryConfig["backend"],
  createNetlink: () => SockDiag = createSockDiag,
): SocketDumper {
  let netlink: SockDiag | undefined;
  return {
    isWanted: () => backend() !== "procfs",
    open: (request) => {
      netlink ??= createNetlink();
      return netlink.open(request);
    },
  };
}
