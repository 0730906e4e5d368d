/** Scans listeners, connections and their processes on this host. Keeps state between scans, so that unchanged sockets cost nothing. */

import { remembered } from "../../base/remembered.ts";
import { createReadTally, type HostRoot } from "../files/host-root.ts";
import { fieldsOf } from "../files/kernel-text.ts";
import { createPacer, type Pacer } from "../files/pacer.ts";
import { parseUptimeS } from "../metrics/loadavg.ts";
import { createContainerReader } from "../naming/container-facts.ts";
import { noPodLabels, type PodLabels } from "../naming/kubernetes-facts.ts";
import { readKernelUnits } from "../processes/auxiliary-vector.ts";
import { createCommandLines } from "../processes/command-lines.ts";
import {
  createExecutableBuilds,
  type ExecutableBuild,
  type ExecutableBuilds,
  type ExecutableFile,
} from "../processes/executable-builds.ts";
import { FactsCache } from "../processes/facts-cache.ts";
import { createEnvironmentCache, type FactsRules, type ProcessFacts } from "../processes/process-facts.ts";
import {
  createProcessTable,
  namespaceInode,
  type ProcessChanges,
  type ProcessEntry,
  type ProcessTable,
} from "../processes/process-table.ts";
import { createScriptBuilds, type ScriptBuilds } from "../processes/script-builds.ts";
import { createUserNames, type UserNames } from "../processes/user-names.ts";
import { clusterOwners } from "./cluster-owners.ts";
import { readLocalAddresses } from "./local-addresses.ts";
import { OwnerSearch } from "./owner-search.ts";
import { createSocketOwners, type SocketOwners } from "./socket-owners.ts";
import { createSocketReader, type SocketReader } from "./socket-reader.ts";
import { type SocketDumper, type SocketProtocol, type SocketView, socketStates } from "./socket-source.ts";
import { createSocketTracker, type SocketChanges, type SocketTracker, type SocketTrackerOptions } from "./socket-tracker.ts";
import { localEndOf, type TrackedSocket } from "./tracked-socket.ts";

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
  /** Processes whose descriptors or namespaces cannot be read. */
  deniedProcesses: number;
  listenersWithoutProcess: number;
  connectionsWithoutProcess: number;
  /** Processes, namespaces, sockets and descriptors above a limit. */
  cut: number;
  /** Connections that were only counted, by address pair. */
  folded: number;
  /** Namespaces that could not be read at all. */
  unreadNamespaces: number;
  /** Executables too large, or too many at once, to be hashed. */
  skippedBuilds: number;
  /** Why some connections have no byte counts and round-trip times; null if all have them. */
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
  /** The file now at the path that the process was started from; null if there is none. */
  fileOnDisk(facts: ProcessFacts): ExecutableFile | null;
  /** Addresses of the host in a namespace, without loopback and link-local. */
  addressesIn(networkNamespace: number): readonly string[];
  /** The host's own namespace, among those of containers. */
  hostNamespace: number;
  /** Whether it was scanned: it contains visible processes. */
  isSeenNamespace(networkNamespace: number): boolean;
  /** Whether the port is in the ephemeral range: a socket on it may be a client's. */
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
/** A process that just started may not have set its title yet, so it is read again in the next scan. */
const youngS = 60;
const connectionStates = [socketStates.established, socketStates.synSent, socketStates.closeWait];

export function createDiscoveryScanner(root: HostRoot, options: DiscoveryScannerOptions = {}): DiscoveryScanner {
  return new Scanner(root, options);
}

/** What was skipped while reading the sockets of all namespaces. */
interface Skipped {
  unreadNamespaces: number;
  cutNamespaces: number;
}

class Scanner implements DiscoveryScanner {
  readonly #root: HostRoot;
  readonly #table: ProcessTable;
  readonly #owners: SocketOwners;
  readonly #tracker: SocketTracker;
  readonly #search: OwnerSearch;
  readonly #reader: SocketReader;
  readonly #builds: ExecutableBuilds;
  readonly #scripts: ScriptBuilds;
  readonly #users: UserNames;
  readonly #facts: FactsCache;
  readonly #units = readKernelUnits();

  constructor(root: HostRoot, options: DiscoveryScannerOptions) {
    this.#root = root;
    this.#table = createProcessTable(root);
    this.#owners = createSocketOwners(root);
    this.#tracker = createSocketTracker(options);
    this.#search = new OwnerSearch(this.#table, this.#owners, this.#tracker);
    this.#reader = createSocketReader(root, options.dumper ?? null);
    this.#builds = createExecutableBuilds(root);
    this.#scripts = createScriptBuilds(root);
    this.#users = createUserNames(root);
    this.#facts = new FactsCache({
      root,
      users: this.#users,
      containers: createContainerReader(root),
      builds: this.#builds,
      scripts: this.#scripts,
      pods: options.pods ?? noPodLabels,
      cgroups: new Map(),
      commandLines: createCommandLines(),
      environments: createEnvironmentCache(root),
    });
  }

  async scan(request: DiscoveryRequest, signal?: AbortSignal): Promise<DiscoveryScan> {
    signal?.throwIfAborted();
    const pacer = createPacer(signal);
    this.#users.refresh();
    this.#builds.beginScan();
    const processes = await this.#table.refresh(pacer);
    const uptimeS = parseUptimeS(this.#root.readText("/proc/uptime") ?? "");
    const youngAfterTicks = (uptimeS - youngS) * this.#units.ticksPerS;
    this.#facts.begin({ rules: request.rules, scan: this.#table.scan, youngAfterTicks }, processes.removed);
    this.#tracker.beginScan(this.#table.scan);
    const skipped = await this.#readSockets(request, pacer);
    const changes = this.#tracker.endScan((socket) => this.#owners.forgetSocket(socket.inode));
    await this.#search.run(processes, pacer);
    await this.#readFacts(pacer);
    return { ...this.#view(), ...changes, uptimeS, limits: this.#limits(processes, changes, skipped) };
  }

  hashBuilds(signal?: AbortSignal): Promise<number> {
    return this.#builds.hashWaiting(signal);
  }

  async #readSockets(request: DiscoveryRequest, pacer: Pacer): Promise<Skipped> {
    const tally = createReadTally();
    const { own, namespaces } = this.#namespaces();
    let unreadNamespaces = 0;
    for (const [inode, members] of [...namespaces].slice(0, maxNamespaces)) {
      // Under the agent's own root this is its own namespace, even if links cannot be read.
      const view = { members, isOwn: inode === own || (own === null && members[0] === this.#root.viewpoint) };
      for (const protocol of request.protocols) {
        const states = statesOf(protocol, request.connections);
        const observe = (socket: SocketView): void => this.#tracker.observe(socket, protocol, inode);
        if (await this.#reader.read(view, { protocol, states }, observe, pacer, tally)) continue;
        this.#tracker.keep(inode);
        unreadNamespaces++;
      }
    }
    return { unreadNamespaces, cutNamespaces: Math.max(0, namespaces.size - maxNamespaces) };
  }

  /** All network namespaces with directories of members in /proc, the viewpoint's first; `own` is this thread's, null when it may not be read. */
  #namespaces(): { own: number | null; namespaces: Map<number, readonly string[]> } {
    const root = this.#root;
    const own = namespaceInode(root.readLink(`${root.threadView}/ns/net`));
    const first = namespaceInode(root.readLink(`${root.viewpoint}/ns/net`));
    const namespaces = new Map<number, readonly string[]>([[first ?? own ?? 0, [root.viewpoint]]]);
    for (const [inode, members] of this.#table.namespaces()) remembered(namespaces, inode, () => members.map(({ pid }) => `/proc/${pid}`));
    return { own, namespaces };
  }

  /** Reads the facts of every process with a socket, in time slices, so that later lookups use the cache. */
  async #readFacts(pacer: Pacer): Promise<void> {
    const visited = new Set<number>();
    for (const sockets of [this.#tracker.listeners, this.#tracker.connections]) {
      for (const { inode } of sockets.values()) {
        for (const pid of this.#owners.of(inode)) {
          if (visited.has(pid)) continue;
          visited.add(pid);
          if (pacer.due()) await pacer.rest();
          this.#facts.of(this.#table.get(pid));
        }
      }
    }
  }

  /** Lookups in the state of this scan. */
  #view(): Omit<DiscoveryScan, keyof SocketChanges | "uptimeS" | "limits"> {
    const root = this.#root;
    const [firstPort = 32_768, lastPort = 60_999] = fieldsOf(root.readText("/proc/sys/net/ipv4/ip_local_port_range") ?? "").map(Number);
    const addresses = new Map<number, readonly string[]>();
    const clusters = new Map<string, readonly number[]>();
    const disk = new Map<string, ExecutableFile | null>();
    const hostNamespace = namespaceInode(root.readLink(`${root.viewpoint}/ns/net`)) ?? 0;
    return {
      number: this.#table.scan,
      listeners: this.#tracker.listeners,
      connections: this.#tracker.connections,
      ownersOf: (socket) => {
        const owners = this.#owners.of(socket.inode);
        const [owner] = owners;
        if (owner === undefined || owners.length > 1 || socket.role !== null) return owners;
        return remembered(clusters, `${owner} ${socket.localPort}`, () => clusterOwners(owner, socket.localPort, this.#clusterView()));
      },
      listenersOf: (socket) => this.#tracker.index.match(localEndOf(socket)),
      processOf: (pid) => this.#table.get(pid),
      factsOf: (pid) => this.#facts.of(this.#table.get(pid)),
      buildOf: (process) => process.file?.build ?? (process.file && this.#builds.of(runningPathOf(process))?.build) ?? null,
      fileOnDisk: ({ exe, containerId, entry, program }) => {
        if (program !== null) return this.#scripts.onDisk(program);
        if (exe === null) return null;
        const path = containerId === null ? exe : `/proc/${entry.pid}/root${exe}`;
        return remembered(disk, `${containerId} ${exe}`, () => this.#builds.of(path));
      },
      addressesIn: (inode) =>
        remembered(addresses, inode, () => {
          const [member] = this.#table.namespaces().get(inode) ?? [];
          return readLocalAddresses(root, member ? `/proc/${member.pid}` : root.viewpoint);
        }),
      hostNamespace,
      isSeenNamespace: (inode) => inode === hostNamespace || this.#table.namespaces().has(inode),
      isEphemeral: (port) => port >= firstPort && port <= lastPort,
    };
  }

  #clusterView(): Parameters<typeof clusterOwners>[2] {
    return {
      factsOf: (pid) => this.#facts.of(this.#table.get(pid)),
      childrenOf: (pid) => this.#table.childrenOf(pid),
      acceptedAt: (port) => {
        const here = [...this.#tracker.connections.values()].filter(({ localPort, role }) => localPort === port && role === "server");
        return new Set(here.flatMap(({ inode }) => this.#owners.of(inode)));
      },
    };
  }

  #limits(processes: ProcessChanges, changes: SocketChanges, { unreadNamespaces, cutNamespaces }: Skipped): DiscoveryLimits {
    const isWithoutOwner = (socket: TrackedSocket): boolean => this.#owners.of(socket.inode).length === 0;
    return {
      deniedProcesses: Math.max(processes.denied, this.#owners.denied),
      listenersWithoutProcess: countIn(this.#tracker.listeners, isWithoutOwner),
      connectionsWithoutProcess: countIn(this.#tracker.connections, isWithoutOwner),
      cut: cutNamespaces + processes.cut + this.#owners.cut + this.#tracker.cutListeners + changes.cut,
      folded: changes.folded.reduce((sum, row) => sum + row.connections, 0),
      unreadNamespaces,
      skippedBuilds: this.#builds.skipped,
      withoutCounters: this.#reader.fallback,
    };
  }
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
