/** Maps pids, ports and addresses in the traffic to services, by the newest scan and a cache of earlier ones. */

import { isLoopback, isWildcard } from "../../base/ip-address.ts";
import { remembered } from "../../base/remembered.ts";
import type { DiscoveryScan, TrackedSocket } from "../../host/index.ts";
import type { ConnectionRow } from "../connections/connection-tracks.ts";
import { servingOwners } from "../naming/listener-owners.ts";
import { noProcessTimes, type ProcessTimes } from "../naming/process-times.ts";
import type { ProcessKey } from "../naming/service-identities.ts";
import type { ServiceNamer } from "../naming/service-namer.ts";

/** A service by its id and its name. */
export interface NamedService {
  service: string;
  name: string;
}

export interface TrafficDirectory {
  /** Call with each completed scan. */
  update(scan: DiscoveryScan, namer: ServiceNamer): void;
  /**
   * The service of a server process at `port`, or of a client process with null. An unknown server process gets the name of the only service
   * that listens on the port, because some servers fork a process per connection; otherwise undefined.
   */
  serviceOf(pid: number, port: number | null, span?: TimeSpan): NamedService | undefined;
  /** The topmost process of its family, which shares names learned from traffic. Undefined for an unknown process. */
  headOf(pid: number, span?: TimeSpan): ProcessKey | undefined;
  /** The id of the local service that a process reaches at an address; null when there is none, or more than one. */
  listenerAt(pid: number, address: string, port: number): string | null;
  /** The id of the local service that calls a process at its port from an address; null when there is none, or more than one. */
  callerOf(pid: number, port: number, address: string): string | null;
  /** Remembers callers for two minutes: most connections are too short for a scan. */
  addCallers(rows: readonly ConnectionRow[]): void;
  /** Start of the process that has the pid at this moment, which the newest scan may not have seen; null when there is none. */
  startTicksNow(pid: number): number | null;
  /** Processes of matching services, ascending. */
  pidsOf(isMatch: (service: NamedService) => boolean): number[];
  /** Services with a matching process. */
  servicesOf(isMatch: (pid: number) => boolean): NamedService[];
}

/** When requests were observed, CLOCK_MONOTONIC. Decides which of the processes that had a pid is meant. */
export interface TimeSpan {
  fromNs: bigint;
  toNs: bigint;
}

interface Known {
  startTicks: number;
  /** When a scan first missed it, CLOCK_MONOTONIC: later requests are another process's. Null while it runs. */
  goneNs: bigint | null;
  /** The process that had the pid before. */
  former: Known | undefined;
  head: ProcessKey;
  networkNamespace: number | null;
  /** By port; null for the process as a whole. */
  services: Map<number | null, NamedService>;
}

export interface TrafficDirectoryOptions {
  /** Cached processes, including exited ones. Default 8192. */
  maxProcesses?: number;
  /** Default: processes that had the same pid are not distinguished. */
  times?: ProcessTimes;
  /** Start of the process that has the pid at this moment; null when there is none. Default: as in the newest scan. */
  startTicksNow?: (pid: number) => number | null;
  /** CLOCK_MONOTONIC. */
  nowNs?: () => bigint;
}

/** Further ports of a process share its name. */
const maxPortsPerProcess = 64;

export function createTrafficDirectory(options: TrafficDirectoryOptions = {}): TrafficDirectory {
  return new ScanDirectory(options);
}

/** Searches the newest scan first, then cached processes, which may have exited. */
class ScanDirectory implements TrafficDirectory {
  readonly #options: Required<Omit<TrafficDirectoryOptions, "startTicksNow">> & Pick<TrafficDirectoryOptions, "startTicksNow">;
  #current: { scan: DiscoveryScan; namer: ServiceNamer; index: ScanIndex } | undefined;
  /** Least recently used first. */
  readonly #known = new Map<number, Known>();
  readonly #callers = new CallerCache();
  /** Current start time of each pid, read once per window: a window has thousands of groups but few processes. */
  #checked: { span: TimeSpan | undefined; ticks: Map<number, number | null> } = { span: undefined, ticks: new Map() };

  constructor(options: TrafficDirectoryOptions) {
    this.#options = { maxProcesses: 8_192, times: noProcessTimes, nowNs: () => process.hrtime.bigint(), ...options };
  }

  update(scan: DiscoveryScan, namer: ServiceNamer): void {
    const index = indexOf(scan, namer);
    this.#current = { scan, namer, index };
    const nowNs = this.#options.nowNs();
    for (const [pid, entry] of this.#known) if (scan.processOf(pid)?.startTicks !== entry.startTicks) entry.goneNs ??= nowNs;
    // Caches processes that may exit before their requests are reported.
    for (const { pid, port } of index.owners) this.#lookUp(pid, port);
  }

  serviceOf(pid: number, port: number | null, span?: TimeSpan): NamedService | undefined {
    const services = this.#lookUp(pid, port, span)?.services;
    if (!services && port !== null) return this.#current?.index.onlyAt(port) ?? undefined;
    return services?.get(port) ?? services?.get(null) ?? services?.values().next().value;
  }

  headOf(pid: number, span?: TimeSpan): ProcessKey | undefined {
    return this.#lookUp(pid, null, span)?.head;
  }

  listenerAt(pid: number, address: string, port: number): string | null {
    return this.#current?.index.listenerAt(this.#namespaceOf(pid), address, port) ?? null;
  }

  addCallers(rows: readonly ConnectionRow[]): void {
    this.#callers.add(rows, this.#options.nowNs());
  }

  callerOf(pid: number, port: number, address: string): string | null {
    const key = callerKey(this.#namespaceOf(pid), port, address);
    const open = this.#current?.index.callerAt(key);
    const found = new Set([...(open === undefined ? [] : [open]), ...this.#callers.at(key, this.#options.nowNs())]);
    const [only = null] = found;
    return found.size === 1 ? only : null;
  }

  startTicksNow(pid: number): number | null {
    const { startTicksNow } = this.#options;
    return startTicksNow ? startTicksNow(pid) : (this.#current?.scan.processOf(pid)?.startTicks ?? null);
  }

  pidsOf(isMatch: (service: NamedService) => boolean): number[] {
    return this.#running()
      .flatMap(([pid, { services }]) => ([...services.values()].some(isMatch) ? [pid] : []))
      .sort((a, b) => a - b);
  }

  servicesOf(isMatch: (pid: number) => boolean): NamedService[] {
    const found = this.#running().flatMap(([pid, { services }]) => (isMatch(pid) ? [...services.values()] : []));
    return [...new Map(found.map((one) => [one.service, one])).values()];
  }

  /** Updates the cache entry of a running process; returns the cached one of an exited process. */
  #lookUp(pid: number, port: number | null, span?: TimeSpan): Known | undefined {
    const current = this.#current;
    const entry = current?.scan.processOf(pid);
    const cached = this.#known.get(pid);
    if (this.#isReused(pid, entry?.startTicks, span)) return undefined;
    if (!entry || !current) return atTime(cached, span);
    const { startTicks } = entry;
    const isSame = cached?.startTicks === startTicks;
    if (this.#isBefore(startTicks, span)) return atTime(isSame ? cached.former : cached, span);
    const fresh = { startTicks, goneNs: null, former: cached && { ...cached, former: undefined }, head: { pid, startTicks } };
    const next: Known = isSame ? cached : { ...fresh, networkNamespace: null, services: new Map() };
    next.networkNamespace = entry.networkNamespace;
    next.head = current.namer.headOf(pid) ?? next.head;
    if (next.services.size < maxPortsPerProcess || next.services.has(port)) {
      const name = port === null ? current.namer.ofProcess(pid) : current.namer.atPort(pid, port);
      // Without a name from any source, the kernel's process name is used.
      next.services.set(port, name ? { service: name.service, name: name.name } : { service: entry.name, name: entry.name });
    }
    this.#keep(pid, next);
    return next;
  }

  #keep(pid: number, entry: Known): void {
    this.#known.delete(pid);
    this.#known.set(pid, entry);
    for (const oldest of this.#known.keys()) {
      if (this.#known.size <= this.#options.maxProcesses) break;
      this.#known.delete(oldest);
    }
  }

  /** True when the requests are older than the process. */
  #isBefore(startTicks: number, span: TimeSpan | undefined): boolean {
    const startedNs = span ? this.#options.times.startedNs(startTicks) : null;
    return span !== undefined && startedNs !== null && span.toNs < startedNs;
  }

  /** True when a process has started under the pid since the scan, and the requests are its own. */
  #isReused(pid: number, startTicks: number | undefined, span: TimeSpan | undefined): boolean {
    const { startTicksNow } = this.#options;
    if (!span || !startTicksNow) return false;
    if (this.#checked.span !== span) this.#checked = { span, ticks: new Map() };
    const now = remembered(this.#checked.ticks, pid, () => startTicksNow(pid));
    return now !== null && now !== startTicks && !this.#isBefore(now, span);
  }

  #namespaceOf(pid: number): number | null {
    return this.#known.get(pid)?.networkNamespace ?? null;
  }

  #running(): [pid: number, Known][] {
    return [...this.#known].filter(([pid, { startTicks }]) => this.#current?.scan.processOf(pid)?.startTicks === startTicks);
  }
}

/** Undefined when the process had ended before the requests were sent. */
function atTime(cached: Known | undefined, span: TimeSpan | undefined): Known | undefined {
  const goneNs = cached?.goneNs ?? null;
  return goneNs !== null && span !== undefined && span.fromNs >= goneNs ? undefined : cached;
}

interface ScanIndex {
  /** The service that listens on a port in any namespace; null when there are several. */
  onlyAt(port: number): NamedService | null;
  owners: { pid: number; port: number | null }[];
  listenerAt(namespace: number | null, address: string, port: number): string | null;
  /** Null when there are several; undefined when there is none. */
  callerAt(key: string): string | null | undefined;
}

/** The key by which a server sees its callers. A loopback address is unique only within its network namespace. */
function callerKey(namespace: number | null, port: number, address: string): string {
  return `${isLoopback(address) ? namespace : ""} ${port} ${address}`;
}

/** Ids by key; null for a key with two of them. */
class UniqueServices {
  readonly #names = new Map<string, string | null>();

  add(key: string, service: string): void {
    const known = this.#names.get(key);
    if (known === undefined) this.#names.set(key, service);
    else if (known !== service) this.#names.set(key, null);
  }

  get(key: string): string | null | undefined {
    return this.#names.get(key);
  }
}

/** UDP and TCP are not separated: the same program usually has both ports. */
function indexOf(scan: DiscoveryScan, namer: ServiceNamer): ScanIndex {
  const byNamespace = new UniqueServices();
  const byAddress = new UniqueServices();
  const callers = new UniqueServices();
  const ports = new UniqueServices();
  const names = new Map<string, string>();
  const owners = new Map<string, { pid: number; port: number | null }>();
  const own = (pid: number, port: number | null): void => {
    owners.set(`${pid} ${port}`, { pid, port });
  };
  for (const listener of scan.listeners.values()) {
    const pids = servingOwners(scan, listener);
    for (const pid of pids) own(pid, listener.localPort);
    const { service, name } = namer.atListener(listener, pids[0] ?? null);
    names.set(service, name);
    ports.add(String(listener.localPort), service);
    addListener(scan, listener, service, byNamespace, byAddress);
  }
  for (const connection of scan.connections.values()) {
    const [pid] = scan.ownersOf(connection);
    if (pid === undefined) continue;
    own(pid, connection.role === "server" ? connection.localPort : null);
    if (connection.role !== "client") continue;
    const service = namer.ofProcess(pid)?.service;
    if (service !== undefined) callers.add(callerKey(connection.networkNamespace, connection.remotePort, connection.localAddress), service);
  }
  return {
    owners: [...owners.values()],
    onlyAt: (port) => {
      const service = ports.get(String(port)) ?? null;
      return service === null ? null : { service, name: names.get(service) ?? service };
    },
    listenerAt: (namespace, address, port) => {
      if (isLoopback(address)) {
        // Clients that exited before a scan have no known namespace; a single service on the port is unambiguous.
        if (namespace === null) return ports.get(String(port)) ?? null;
        return byNamespace.get(`${namespace} ${address} ${port}`) ?? byNamespace.get(`${namespace} * ${port}`) ?? null;
      }
      return byNamespace.get(`${namespace} ${address} ${port}`) ?? byAddress.get(`${address} ${port}`) ?? null;
    },
    callerAt: (key) => callers.get(key),
  };
}

const callerKeptNs = 120_000_000_000n;
/** Calling endpoints kept; the least recently seen is evicted. */
const maxCallerKeys = 4_096;

/** Calling services by `callerKey`. Each expires when it has not been seen for two minutes. */
class CallerCache {
  readonly #callers = new Map<string, Map<string, bigint>>();

  add(rows: readonly ConnectionRow[], nowNs: bigint): void {
    for (const { role, service, netns, client_address: address, server_port: port, state } of rows) {
      if (role !== "client" || service === null || state === "failed") continue;
      const key = callerKey(netns, port, address);
      const seen = this.#callers.get(key) ?? new Map<string, bigint>();
      this.#callers.delete(key);
      this.#callers.set(key, seen.set(service, nowNs));
    }
    for (const oldest of this.#callers.keys()) {
      if (this.#callers.size <= maxCallerKeys) break;
      this.#callers.delete(oldest);
    }
  }

  at(key: string, nowNs: bigint): string[] {
    const seen = this.#callers.get(key) ?? new Map<string, bigint>();
    return [...seen].flatMap(([service, atNs]) => (nowNs - atNs < callerKeptNs ? [service] : []));
  }
}

/** A wildcard listener serves every address of its network namespace. */
function addListener(
  scan: DiscoveryScan,
  listener: TrackedSocket,
  service: string,
  byNamespace: UniqueServices,
  byAddress: UniqueServices,
): void {
  const { networkNamespace: namespace, localAddress: address, localPort: port } = listener;
  if (!isWildcard(address)) {
    byNamespace.add(`${namespace} ${address} ${port}`, service);
    if (!isLoopback(address)) byAddress.add(`${address} ${port}`, service);
    return;
  }
  byNamespace.add(`${namespace} * ${port}`, service);
  for (const local of scan.addressesIn(namespace)) {
    byNamespace.add(`${namespace} ${local} ${port}`, service);
    byAddress.add(`${local} ${port}`, service);
  }
}
