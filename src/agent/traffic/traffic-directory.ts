/** Who is behind a process id, a port and an address in the traffic, by the newest scan for services and what is remembered of those before. */

import { isLoopback, isWildcard } from "../../base/ip-address.ts";
import type { DiscoveryScan, TrackedSocket } from "../../host/index.ts";
import { servingOwners } from "../naming/listener-owners.ts";
import type { ServiceNamer } from "../naming/service-namer.ts";

export interface TrafficDirectory {
  /** To be called with each scan, when it is complete. */
  update(scan: DiscoveryScan, namer: ServiceNamer): void;
  /**
   * Of a process that answers at `port`, or with null that asks. A process that nobody has seen yet is, when it answers, the only service that
   * listens there, because servers start one for each connection; else undefined.
   */
  serviceOf(pid: number, port: number | null): string | undefined;
  /** The process, or who started it as a worker: those share the names that traffic gives them. Undefined when nobody has seen it. */
  headOf(pid: number): { pid: number; startTicks: number } | undefined;
  /** The service of this host that a process reaches at an address; null when there is none, or more than one. */
  listenerAt(pid: number, address: string, port: number): string | null;
  /** The only service of this host that calls a process at its port from an address. */
  callerOf(pid: number, port: number, address: string): string | null;
  /** Processes of a service, ascending. */
  pidsOf(isMeant: (service: string) => boolean): number[];
  /** Services that have such a process. */
  servicesOf(isMeant: (pid: number) => boolean): string[];
}

interface Known {
  startTicks: number;
  head: { pid: number; startTicks: number };
  networkNamespace: number | null;
  /** By port; null is the process as a whole. */
  services: Map<number | null, string>;
}

export interface TrafficDirectoryOptions {
  /** Processes that are remembered, those that ended among them. Default 8192. */
  maxProcesses?: number;
}

/** More ports of one process than this are not told apart. */
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

  /** What is remembered of a process that runs is brought up to date; of one that has ended it stays. */
  const look = (pid: number, port: number | null): Known | undefined => {
    const entry = current?.scan.processOf(pid);
    const memory = known.get(pid);
    if (!entry || !current) return memory;
    const isSame = memory?.startTicks === entry.startTicks;
    const { startTicks } = entry;
    const next: Known = isSame ? memory : { startTicks, head: { pid, startTicks }, networkNamespace: null, services: new Map() };
    next.networkNamespace = entry.networkNamespace;
    next.head = current.namer.headOf(pid) ?? next.head;
    if (next.services.size < maxPortsPerProcess || next.services.has(port)) {
      const name = port === null ? current.namer.ofProcess(pid) : current.namer.atPort(pid, port);
      // A process that nothing names is called what the kernel calls it.
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
      // So that a process which ends before its requests are reported is known all the same.
      for (const { pid, port } of current.places.owners) look(pid, port);
    },
    serviceOf: (pid, port) => {
      const services = look(pid, port)?.services;
      if (!services && port !== null) return current?.places.onlyAt(port) ?? undefined;
      return services?.get(port) ?? services?.get(null) ?? services?.values().next().value;
    },
    headOf: (pid) => look(pid, null)?.head,
    listenerAt: (pid, address, port) => current?.places.listenerAt(known.get(pid)?.networkNamespace ?? null, address, port) ?? null,
    callerOf: (pid, port, address) => current?.places.callerOf(known.get(pid)?.networkNamespace ?? null, port, address) ?? null,
    pidsOf: (isMeant) =>
      running()
        .flatMap(([pid, { services }]) => ([...services.values()].some(isMeant) ? [pid] : []))
        .sort((a, b) => a - b),
    servicesOf: (isMeant) => {
      const names = running().flatMap(([pid, { services }]) => (isMeant(pid) ? [...services.values()] : []));
      return [...new Set(names)];
    },
  };
}

interface Places {
  /** The service that listens at a port, in whatever namespace; null when there are several. */
  onlyAt(port: number): string | null;
  owners: { pid: number; port: number | null }[];
  listenerAt(namespace: number | null, address: string, port: number): string | null;
  callerOf(namespace: number | null, port: number, address: string): string | null;
}

/** Null once two different names were given. */
class OnlyName {
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

/** Of UDP and TCP at the same port the same program is the rule: they are not told apart. */
function placesOf(scan: DiscoveryScan, namer: ServiceNamer): Places {
  const here = new OnlyName();
  const anywhere = new OnlyName();
  const callers = new OnlyName();
  const ports = new OnlyName();
  const owners = new Map<string, { pid: number; port: number | null }>();
  const own = (pid: number, port: number | null): void => {
    owners.set(`${pid} ${port}`, { pid, port });
  };
  for (const listener of scan.listeners.values()) {
    const pids = servingOwners(scan, listener);
    for (const pid of pids) own(pid, listener.localPort);
    const { service } = namer.atListener(listener, pids[0] ?? null);
    ports.add(String(listener.localPort), service);
    addListener(scan, listener, service, here, anywhere);
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
        // Callers that ended before a scan have no known namespace; one service at the port leaves no doubt.
        if (namespace === null) return ports.get(String(port)) ?? null;
        return here.get(`${namespace} ${address} ${port}`) ?? here.get(`${namespace} * ${port}`) ?? null;
      }
      return here.get(`${namespace} ${address} ${port}`) ?? anywhere.get(`${address} ${port}`) ?? null;
    },
    callerOf: (namespace, port, address) => callers.get(`${isLoopback(address) ? namespace : ""} ${port} ${address}`) ?? null,
  };
}

function addListener(scan: DiscoveryScan, listener: TrackedSocket, service: string, here: OnlyName, anywhere: OnlyName): void {
  const { networkNamespace: namespace, localAddress: address, localPort: port } = listener;
  if (!isWildcard(address)) {
    here.add(`${namespace} ${address} ${port}`, service);
    if (!isLoopback(address)) anywhere.add(`${address} ${port}`, service);
    return;
  }
  here.add(`${namespace} * ${port}`, service);
  for (const local of scan.addressesIn(namespace)) {
    here.add(`${namespace} ${local} ${port}`, service);
    anywhere.add(`${local} ${port}`, service);
  }
}
