/** Reads the sockets of a namespace by netlink, and from the text tables as a fallback. */

import type { HostRoot, ReadTally } from "../files/host-root.ts";
import type { Pacer } from "../files/pacer.ts";
import { type SocketDumper, type SocketProtocol, type VisitSocket } from "./socket-source.ts";
import { readSocketTable } from "./socket-table.ts";

export interface NamespaceView {
  /** Processes in the namespace, as paths: `/proc/42`. The first readable one is used. */
  members: readonly string[];
  /** True for the agent's own. */
  isOwn: boolean;
}

export interface SocketReader {
  /** False when the namespace could not be read at all. */
  read(
    namespace: NamespaceView,
    request: { protocol: SocketProtocol; states: readonly number[] },
    visit: VisitSocket,
    pacer: Pacer,
    tally: ReadTally,
  ): Promise<boolean>;
  /** Why some sockets have no counters; null while netlink works. */
  readonly fallback: string | null;
}

type Family = 4 | 6;
const families: readonly Family[] = [4, 6];
const suffixes = { 4: "", 6: "6" } as const;
const inUse = {
  tcp: { 4: /^TCP: inuse (\d+)/m, 6: /^TCP6: inuse (\d+)/m },
  udp: { 4: /^UDP: inuse (\d+)/m, 6: /^UDP6: inuse (\d+)/m },
} as const;

export function createSocketReader(root: HostRoot, dumper: SocketDumper | null): SocketReader {
  /** Dumps that netlink refused, by protocol and namespace (own or other): it would refuse again. */
  const refused = new Set<string>();
  let fallback: string | null = dumper ? null : "netlink is not used";

  /** The kernel keeps the sockets of all namespaces in one table and walks all of it per dump, so kinds that a namespace does not use are skipped. */
  const usedFamilies = (member: string, protocol: SocketProtocol): Family[] =>
    families.filter((family) => countInUse(root.readText(`${member}/net/sockstat${suffixes[family]}`) ?? "", protocol, family) !== 0);

  const readByNetlink = async (
    source: SocketDumper,
    { members, isOwn }: NamespaceView,
    request: { protocol: SocketProtocol; states: readonly number[] },
    visit: VisitSocket,
    pacer: Pacer,
  ): Promise<boolean> => {
    for (const family of usedFamilies(members[0] ?? "", request.protocol)) {
      const open = (namespace: { fd: number; ownFd: number } | null) => source.open({ ...request, family, namespace });
      const dump = isOwn
        ? open(null)
        : root.withOpen(`${members[0]}/ns/net`, (fd) => root.withOpen(`${root.threadView}/ns/net`, (ownFd) => open({ fd, ownFd })));
      if (!dump) return false;
      try {
        while (dump.next(visit)) if (pacer.due()) await pacer.rest();
      } finally {
        dump.close();
      }
    }
    return true;
  };

  return {
    read: async (namespace, request, visit, pacer, tally) => {
      const key = `${request.protocol} ${namespace.isOwn}`;
      if (dumper && !refused.has(key) && dumper.isWanted?.() !== false) {
        try {
          if (await readByNetlink(dumper, namespace, request, visit, pacer)) return true;
        } catch (error) {
          // Aborted by the caller, or refused by the kernel: the text tables hold the same, without counters.
          pacer.check();
          refused.add(key);
          fallback = error instanceof Error ? error.message : String(error);
        }
      }
      for (const member of namespace.members) {
        const found = usedFamilies(member, request.protocol).map((family) =>
          readSocketTable(root, `${member}/net/${request.protocol}${suffixes[family]}`, request.states, visit, tally),
        );
        // Zero sockets is a valid result.
        if (found.length === 0 || found.some(Boolean)) return true;
      }
      return false;
    },
    get fallback() {
      return fallback;
    },
  };
}

/** `TCP: inuse 5 …` of `sockstat`, `TCP6: inuse 5` of `sockstat6`; null if the text does not contain it. */
export function countInUse(text: string, protocol: SocketProtocol, family: Family): number | null {
  const found = inUse[protocol][family].exec(text)?.[1];
  return found === undefined ? null : Number(found);
}
