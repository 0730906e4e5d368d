/** One look at everything that listens, serves and calls on this host. Keeps what it knows from scan to scan: what has not changed costs nothing. */

import { remembered } from "../base/remembered.ts";
import { readKernelUnits } from "./auxiliary-vector.ts";
import { createCommandLines } from "./command-lines.ts";
import { createContainerReader } from "./container-facts.ts";
import { createExecutableBuilds, type ExecutableBuild, type ExecutableFile } from "./executable-builds.ts";
import { createReadTally, type HostRoot, type ReadTally } from "./host-root.ts";
import { fieldsOf } from "./kernel-text.ts";
import { noPodLabels, type PodLabels } from "./kubernetes-facts.ts";
import { parseUptimeS } from "./loadavg.ts";
import { readLocalAddresses } from "./local-addresses.ts";
import { OwnerSearch } from "./owner-search.ts";
import { createPacer, type Pacer } from "./pacer.ts";
import { createEnvironmentMemory, type FactsRules, type FactsSources, type ProcessFacts, readProcessFacts } from "./process-facts.ts";
import { createProcessTable, namespaceInode, type ProcessEntry } from "./process-table.ts";
import { createSocketOwners } from "./socket-owners.ts";
import { createSocketReader } from "./socket-reader.ts";
import { type SocketDumper, type SocketProtocol, socketStates } from "./socket-source.ts";
import { createSocketTracker, type SocketChanges, type SocketTrackerOptions } from "./socket-tracker.ts";
import { localEndOf, type TrackedSocket } from "./tracked-socket.ts";
import { createUserNames } from "./user-names.ts";

export interface DiscoveryScannerOptions extends SocketTrackerOptions {
  /** Netlink; null or absent reads the kernel's text tables. */
  dumper?: SocketDumper | null;
  pods?: PodLabels;
}

export interface DiscoveryRequest {
  protocols: readonly SocketProtocol[];
  /** Established connections too, not only listeners. */
  connections: boolean;
  rules: FactsRules;
}

/** What a scan could not see. */
export interface DiscoveryLimits {
  /** Processes whose descriptors or namespaces may not be read. */
  deniedProcesses: number;
  listenersWithoutProcess: number;
  connectionsWithoutProcess: number;
  /** Processes, namespaces, sockets and descriptors above a limit. */
  cut: number;
  /** Connections that were counted by their ends only. */
  folded: number;
  /** Namespaces that could not be read at all. */
  unreadNamespaces: number;
  /** Executables too large, or too many at once, to be hashed. */
  skippedBuilds: number;
  /** Why some connections come without bytes and round-trip times; null when all have them. */
  withoutCounters: string | null;
}

export interface DiscoveryScan extends SocketChanges {
  /** Rises by one with every scan. */
  number: number;
  listeners: ReadonlyMap<number, TrackedSocket>;
  connections: ReadonlyMap<number, TrackedSocket>;
  /** Pids that hold a socket, ascending; several when it was inherited (prefork servers). */
  ownersOf(socket: TrackedSocket): readonly number[];
  /** Listeners that accept for this end of a connection. */
  listenersOf(socket: TrackedSocket): readonly TrackedSocket[];
  processOf(pid: number): ProcessEntry | undefined;
  /** Null when the process has ended. */
  factsOf(pid: number): ProcessFacts | null;
  buildOf(facts: ProcessFacts): ExecutableBuild | null;
  /** The file that lies where the process was started from; null when there is none any more. */
  fileOnDisk(facts: ProcessFacts): ExecutableFile | null;
  /** Addresses of the host in a namespace, without loopback and link-local. */
  addressesIn(networkNamespace: number): readonly string[];
  /** The host's own namespace, among those of containers. */
  hostNamespace: number;
  /** Whether it was looked into: processes that may be seen are in it. */
  isSeenNamespace(networkNamespace: number): boolean;
  /** Whether the kernel gives out this port by itself: a socket on it may be a caller's. */
  isEphemeral(port: number): boolean;
  /** Seconds since the machine was booted, to turn start ticks into a time. */
  uptimeS: number;
  limits: DiscoveryLimits;
}

export interface DiscoveryScanner {
  /** One at a time. Rejects only when the signal is aborted. */
  scan(request: DiscoveryRequest, signal?: AbortSignal): Promise<DiscoveryScan>;
  /** Hashes executables without a build-id; to be called after a scan. */
  hashBuilds(signal?: AbortSignal): Promise<number>;
}

const maxNamespaces = 1024;
/** Facts are read again after so many scans: titles, groups and labels change. */
const factsScans = 20;
/** A process that just started may not have given itself its title yet: it is read a second time. */
const youngS = 60;
const connectionStates = [socketStates.established, socketStates.synSent, socketStates.closeWait];

export function createDiscoveryScanner(root: HostRoot, options: DiscoveryScannerOptions = {}): DiscoveryScanner {
  const table = createProcessTable(root);
  const owners = createSocketOwners(root);
  const tracker = createSocketTracker(options);
  const search = new OwnerSearch(table, owners, tracker);
  const reader = createSocketReader(root, options.dumper ?? null);
  const builds = createExecutableBuilds(root);
  const sources: FactsSources = {
    root,
    users: createUserNames(root),
    containers: createContainerReader(root),
    builds,
    pods: options.pods ?? noPodLabels,
    places: new Map(),
    commandLines: createCommandLines(),
    environments: createEnvironmentMemory(root),
  };
  const facts = createFactsMemory(sources);
  const units = readKernelUnits();

  const readSockets = async (request: DiscoveryRequest, pacer: Pacer, tally: ReadTally): Promise<{ unread: number; cut: number }> => {
    const own = namespaceInode(root.readLink(`${root.threadView}/ns/net`));
    const first = namespaceInode(root.readLink(`${root.viewpoint}/ns/net`));
    const namespaces = new Map<number, readonly string[]>([[first ?? own ?? 0, [root.viewpoint]]]);
    for (const [inode, members] of table.namespaces())
      if (!namespaces.has(inode))
        namespaces.set(
          inode,
          members.map(({ pid }) => `/proc/${pid}`),
        );
    let unread = 0;
    for (const [inode, members] of [...namespaces].slice(0, maxNamespaces)) {
      // Under the agent's own root its namespace is its own also when links may not be read.
      const view = { members, isOwn: inode === own || (own === null && members[0] === root.viewpoint) };
      for (const protocol of request.protocols) {
        const states = statesOf(protocol, request.connections);
        const wasRead = await reader.read(view, { protocol, states }, (socket) => tracker.see(socket, protocol, inode), pacer, tally);
        if (wasRead) continue;
        tracker.keep(inode);
        unread++;
      }
    }
    return { unread, cut: Math.max(0, namespaces.size - maxNamespaces) };
  };

  /** Of everybody who holds a socket, here and in slices, so that whoever asks later gets an answer from memory. */
  const readFacts = async (pacer: Pacer): Promise<void> => {
    const asked = new Set<number>();
    for (const sockets of [tracker.listeners, tracker.connections]) {
      for (const { inode } of sockets.values()) {
        for (const pid of owners.of(inode)) {
          if (asked.has(pid)) continue;
          asked.add(pid);
          if (pacer.due()) await pacer.rest();
          facts.of(table.get(pid));
        }
      }
    }
  };

  const scan = async (request: DiscoveryRequest, signal?: AbortSignal): Promise<DiscoveryScan> => {
    signal?.throwIfAborted();
    const pacer = createPacer(signal);
    const tally = createReadTally();
    sources.users.refresh();
    builds.beginScan();
    const processes = await table.refresh(pacer);
    const uptimeS = parseUptimeS(root.readText("/proc/uptime") ?? "");
    facts.begin({ rules: request.rules, scan: table.scan, youngAfterTicks: (uptimeS - youngS) * units.ticksPerS }, processes.removed);
    tracker.beginScan(table.scan);
    const { unread, cut } = await readSockets(request, pacer, tally);
    const changes = tracker.endScan((socket) => owners.forgetSocket(socket.inode));
    await search.run(processes, pacer);
    await readFacts(pacer);
    const isWithoutOwner = (socket: TrackedSocket): boolean => owners.of(socket.inode).length === 0;
    const [firstPort = 32_768, lastPort = 60_999] = fieldsOf(root.readText("/proc/sys/net/ipv4/ip_local_port_range") ?? "").map(Number);
    const addresses = new Map<number, readonly string[]>();
    const disk = new Map<string, ExecutableFile | null>();
    const hostNamespace = namespaceInode(root.readLink(`${root.viewpoint}/ns/net`)) ?? 0;
    return {
      ...changes,
      number: table.scan,
      listeners: tracker.listeners,
      connections: tracker.connections,
      ownersOf: (socket) => owners.of(socket.inode),
      listenersOf: (socket) => tracker.index.match(localEndOf(socket)),
      processOf: (pid) => table.get(pid),
      factsOf: (pid) => facts.of(table.get(pid)),
      buildOf: (process) => process.file?.build ?? (process.file && builds.of(runningPathOf(process))?.build) ?? null,
      fileOnDisk: (process) => {
        if (process.exe === null) return null;
        const path = process.containerId === null ? process.exe : `/proc/${process.entry.pid}/root${process.exe}`;
        return remembered(disk, `${process.containerId} ${process.exe}`, () => builds.of(path));
      },
      addressesIn: (inode) =>
        remembered(addresses, inode, () => {
          const [member] = table.namespaces().get(inode) ?? [];
          return readLocalAddresses(root, member ? `/proc/${member.pid}` : root.viewpoint);
        }),
      hostNamespace,
      isSeenNamespace: (inode) => inode === hostNamespace || table.namespaces().has(inode),
      isEphemeral: (port) => port >= firstPort && port <= lastPort,
      uptimeS,
      limits: {
        deniedProcesses: Math.max(processes.denied, owners.denied),
        listenersWithoutProcess: countIn(tracker.listeners, isWithoutOwner),
        connectionsWithoutProcess: countIn(tracker.connections, isWithoutOwner),
        cut: cut + processes.cut + owners.cut + tracker.cutListeners + changes.cut,
        folded: changes.folded.reduce((sum, row) => sum + row.connections, 0),
        unreadNamespaces: unread,
        skippedBuilds: builds.skipped,
        withoutCounters: reader.fallback,
      },
    };
  };
  return { scan, hashBuilds: (signal) => builds.hashWaiting(signal) };
}

function runningPathOf({ entry, exe, isExeGone, containerId }: ProcessFacts): string {
  return exe === null || isExeGone || containerId !== null ? `/proc/${entry.pid}/exe` : exe;
}

function statesOf(protocol: SocketProtocol, connections: boolean): readonly number[] {
  if (protocol === "udp") return connections ? [socketStates.close, socketStates.established] : [socketStates.close];
  return connections ? [socketStates.listen, ...connectionStates] : [socketStates.listen];
}

function countIn(sockets: ReadonlyMap<number, TrackedSocket>, isCounted: (socket: TrackedSocket) => boolean): number {
  let count = 0;
  for (const socket of sockets.values()) if (isCounted(socket)) count++;
  return count;
}

interface FactsContext {
  rules: FactsRules;
  scan: number;
  /** Processes that started later are read again in the next scan. */
  youngAfterTicks: number;
}

/** Facts of the processes that were asked for, until they end or become another program. */
function createFactsMemory(sources: FactsSources) {
  const known = new Map<number, { facts: ProcessFacts; validUntil: number }>();
  let context: FactsContext | undefined;
  return {
    begin: (next: FactsContext, removed: readonly ProcessEntry[]): void => {
      // New rules may change every name and what is masked.
      if (context?.rules !== next.rules) {
        known.clear();
        sources.environments?.clear();
      }
      context = next;
      for (const { pid } of removed) known.delete(pid);
    },
    of: (entry: ProcessEntry | undefined): ProcessFacts | null => {
      if (!entry || !context) return null;
      const memory = known.get(entry.pid);
      const isSame = memory?.facts.entry.startTicks === entry.startTicks && memory.facts.entry.execMark === entry.execMark;
      if (memory && isSame && context.scan < memory.validUntil) return memory.facts;
      const facts = readProcessFacts(sources, entry, context.rules);
      const isYoung = !isSame && entry.startTicks > context.youngAfterTicks;
      // Spread, so that not all are read again in the same scan.
      if (facts) known.set(entry.pid, { facts, validUntil: context.scan + (isYoung ? 1 : factsScans + (entry.pid % factsScans)) });
      return facts;
    },
  };
}
