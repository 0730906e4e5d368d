/** Maps pids, ports and addresses in the traffic to services, by the newest scan and a cache of earlier ones. */

import { isLoopback, isWildcard } from "../../base/ip-address.ts";
import type { DiscoveryScan, TrackedSocket } from "../../host/index.ts";
import { servingOwners } from "../naming/listener-owners.ts";
import type { ServiceNamer } from "../naming/service-namer.ts";

export interface TrafficDirectory {
  /** Call with each completed scan. */
  update(scan: DiscoveryScan, namer: ServiceNamer): void;
  /**
   * The service of a server process at `port`, or of a client process with null. An unknown server process gets the name of the only service
   * that listens on the port, because some servers fork a process per connection; otherwise undefined.
   */
  serviceOf(pid: number, port: number | null): string | undefined;
  /** The topmost process of its family, which shares names learned from traffic. Undefined for an unknown process. */
  headOf(pid: number): { pid: number; startTicks: number } | undefined;
  /** The local service that a process reaches at an address; null when there is none, or more than one. */
  listenerAt(pid: number, address: string, port: number): string | null;
  /** The local service that calls a process at its port from an address; null when there is none, or more than one. */
  callerOf(pid: number, port: number, address: string): string | null;
  /** Processes of matching services, ascending. */
  pidsOf(isMatch: (service: string) => boolean): number[];
  /** Services with a matching process. */
  servicesOf(isMatch: (pid: number) => boolean): string[];
}

interface Known {
  startTicks: number;
  head: { pid: number; startTicks: number };
  networkNamespace: number | null;
  /** By port; null for the process as a whole. */
  services: Map<number | null, string>;
}

export interface TrafficDirectoryOptions {
  /** Cached processes, including exited ones. Default 8192. */
  maxProcesses?: number;
}

/** Further ports of a process share its name. */
const maxPortsPerProcess = 64;

export function createTrafficDirectory({ maxProcesses = 8_192 }: TrafficDirectoryOptions = {}): TrafficDirectory {
  let current: { scan: DiscoveryScan; namer: ServiceNamer; places: Places } | undefined;
  /** Least recently used first. */
  const known = new Map<number, Known>();

  const keep = (pid: number, entry: Known): void => {
    known.delete(pid);
    known.set(pid, entry);
    for (const oldest of known.keys()) {
      if (known.size <= maxProcesses) break;
      known.delete(oldest);
    }
  };

  /** Updates the cache entry of a running process; returns the cached one of an exited process. */
  const lookUp = (pid: number, port: number | null): Known | undefined => {
    const entry = current?.scan.processOf(pid);
    const cached = known.get(pid);
    if (!entry || !current) return cached;
    const isSame = cached?.startTicks === entry.startTicks;
    const { startTicks } = entry;
    const next: Known = isSame ? cached : { startTicks, head: { pid, startTicks }, networkNamespace: null, services: new Map() };
    next.networkNamespace = entry.networkNamespace;
    next.head = current.namer.headOf(pid) ?? next.head;
    if (next.services.size < maxPortsPerProcess || next.services.has(port)) {
      const name = port === null ? current.namer.ofProcess(pid) : current.namer.atPort(pid, port);
      // Without a name from any source, the kernel's process name is used.
      next.services.set(port, name?.service ?? entry.name);
    }
    keep(pid, next);
    return next;
  };

  const running = (): [pid: number, Known][] =>
    [...known].filter(([pid, { startTicks }]) => current?.scan.processOf(pid)?.startTicks === startTicks);

  return {
    update: (scan, namer) => {
      current = { scan, namer, places: placesOf(scan, namer) };
      // Caches processes that may exit before their requests are reported.
      for (const { pid, port } of current.places.owners) lookUp(pid, port);
    },
    serviceOf: (pid, port) => {
      const services = lookUp(pid, port)?.services;
      if (!services && port !== null) return current?.places.onlyAt(port) ?? undefined;
      return services?.get(port) ?? services?.get(null) ?? services?.values().next().value;
    },
    headOf: (pid) => lookUp(pid, null)?.head,
    listenerAt: (pid, address, port) => current?.places.listenerAt(known.get(pid)?.networkNamespace ?? null, address, port) ?? null,
    callerOf: (pid, port, address) => current?.places.callerOf(known.get(pid)?.networkNamespace ?? null, port, address) ?? null,
    pidsOf: (isMatch) =>
      running()
        .flatMap(([pid, { services }]) => ([...services.values()].some(isMatch) ? [pid] : []))
        .sort((a, b) => a - b),
    servicesOf: (isMatch) => {
      const names = running().flatMap(([pid, { services }]) => (isMatch(pid) ? [...services.values()] : []));
      return [...new Set(names)];
    },
  };
}

interface Places {
  /** The service that listens on a port in any namespace; null when there are several. */
  onlyAt(port: number): string | null;
  owners: { pid: number; port: number | null }[];
  listenerAt(namespace: number | null, address: string, port: number): string | null;
  callerOf(namespace: number | null, port: number, address: string): string | null;
}

/** Null for a key with two different names. */
class UniqueNames {
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
function placesOf(scan: DiscoveryScan, namer: ServiceNamer): Places {
  const byNamespace = new UniqueNames();
  const byAddress = new UniqueNames();
  const callers = new UniqueNames();
  const ports = new UniqueNames();
  const owners = new Map<string, { pid: number; port: number | null }>();
  const own = (pid: number, port: number | null): void => {
    owners.set(`${pid} ${port}`, { pid, port });
  };
  for (const listener of scan.listeners.values()) {
    const pids = servingOwners(scan, listener);
    for (const pid of pids) own(pid, listener.localPort);
    const { service } = namer.atListener(listener, pids[0] ?? null);
    ports.add(String(listener.localPort), service);
    addListener(scan, listener, service, byNamespace, byAddress);
  }
  for (const connection of scan.connections.values()) {
    const [pid] = scan.ownersOf(connection);
    if (pid === undefined) continue;
    own(pid, connection.role === "server" ? connection.localPort : null);
    if (connection.role !== "client") continue;
    const service = namer.ofProcess(pid)?.service;
    const namespace = isLoopback(connection.remoteAddress) ? connection.networkNamespace : "";
    if (service !== undefined) callers.add(`${namespace} ${connection.remotePort} ${connection.localAddress}`, service);
  }
  return {
    owners: [...owners.values()],
    onlyAt: (port) => ports.get(String(port)) ?? null,
    listenerAt: (namespace, address, port) => {
      if (isLoopback(address)) {
        // Clients that exited before a scan have no known namespace; a single service on the port is unambiguous.
        if (namespace === null) return ports.get(String(port)) ?? null;
        return byNamespace.get(`${namespace} ${address} ${port}`) ?? byNamespace.get(`${namespace} * ${port}`) ?? null;
      }
      return byNamespace.get(`${namespace} ${address} ${port}`) ?? byAddress.get(`${address} ${port}`) ?? null;
    },
    callerOf: (namespace, port, address) => callers.get(`${isLoopback(address) ? namespace : ""} ${port} ${address}`) ?? null,
  };
}

function addListener(
  scan: DiscoveryScan,
  listener: TrackedSocket,
  service: string,
  byNamespace: UniqueNames,
  byAddress: UniqueNames,
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
