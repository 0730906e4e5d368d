/** The instances of one scan: a process at a port, or a worker with only outgoing connections. */

import { isLinkLocal, isLoopback, isWildcard } from "../../base/ip-address.ts";
import type { AgentDiscoveryConfig } from "../../config/index.ts";
import type { DiscoveryScan, ProcessFacts, TrackedSocket } from "../../host/index.ts";
import type { RowOf, SampleTime, serviceInstance } from "../../store/signals/index.ts";
import { type ManagedServices, protocolOf } from "../managed/managed-services.ts";
import { isCommandLineTool } from "../naming/command-line-tools.ts";
import { launchedName } from "../naming/launched-programs.ts";
import { servingOwners } from "../naming/listener-owners.ts";
import type { ServiceName, ServiceNamer } from "../naming/service-namer.ts";

export type ServiceInstanceRow = RowOf<typeof serviceInstance.columns>;

/** One row of `service_instance`, before it is stored. */
export interface ServiceInstance {
  name: ServiceName;
  isManaged: boolean;
  method: "manual" | "listening_socket" | "connection_tracking";
  /** Null for a worker with only outgoing connections. */
  protocol: "tcp" | "udp" | null;
  port: number | null;
  /** The widest listening address; null for workers, and for registered services without a listener. */
  address: string | null;
  /** Null when the owner cannot be read, and without a listener. */
  facts: ProcessFacts | null;
  networkNamespace: number | null;
  userId: number;
  addresses: Set<string>;
}

export interface InstanceScan {
  instances: ServiceInstance[];
  /** Instances above the limit. */
  cut: number;
}

export interface BuildInstancesOptions {
  scan: DiscoveryScan;
  namer: ServiceNamer;
  config: AgentDiscoveryConfig;
  managed: ManagedServices;
  /** Processes with connections that were too short for the scan. */
  callers?: ReadonlySet<number>;
  /** Default 5000. */
  maxInstances?: number;
}

/** Listeners first, then workers with outgoing connections, launched programs, and registered services that are down. */
export function buildInstances(options: BuildInstancesOptions): InstanceScan {
  const { scan, namer, config, managed, callers = new Set(), maxInstances = 5_000 } = options;
  const instances = new Map<string, ServiceInstance>();
  let cut = 0;
  const add = (key: string, make: () => ServiceInstance): ServiceInstance | null => {
    const known = instances.get(key);
    if (known) return known;
    if (instances.size >= maxInstances) {
      cut++;
      return null;
    }
    const instance = make();
    instances.set(key, instance);
    return instance;
  };
  const localAddresses = config.network.reportServiceIps ? outgoingAddresses(scan) : new Map<number, Set<string>>();
  const expand = (instance: ServiceInstance, listener: TrackedSocket): void => {
    instance.address = widest(instance.address, listener.localAddress);
    if (!config.network.reportServiceIps) return;
    const local = isWildcard(listener.localAddress) ? scan.addressesIn(listener.networkNamespace) : [listener.localAddress];
    for (const address of local) if (isReportable(address)) instance.addresses.add(address);
  };

  const launched = managed.launched?.() ?? new Map<number, string>();
  const listeners = new Set<number>();
  const isOn = (method: AgentDiscoveryConfig["methods"][number]): boolean => config.enabled && config.methods.includes(method);
  for (const listener of scan.listeners.values()) {
    const owners = servingOwners(scan, listener);
    for (const pid of owners) listeners.add(pid);
    if (isClientSocket(scan, listener)) continue;
    for (const pid of owners.length > 0 ? owners : [null]) {
      const name = namer.atListener(listener, pid);
      const isLaunched = pid !== null && launchedName(launched, pid, (child) => scan.processOf(child)?.parentPid) !== undefined;
      const key = `${pid ?? `inode ${listener.inode}`} ${listener.protocol} ${listener.localPort}`;
      // Services registered with `coral connect` or started with `coral run` are tracked even with discovery disabled.
      if (!isOn("listening_sockets") && !name.managed && !isLaunched) continue;
      const instance = add(key, () => ({
        name,
        isManaged: name.managed !== undefined || isLaunched,
        method: name.managed || isLaunched ? "manual" : methodOf(config, pid !== null && localAddresses.has(pid)),
        protocol: listener.protocol,
        port: listener.localPort,
        address: null,
        facts: pid === null ? null : scan.factsOf(pid),
        networkNamespace: listener.networkNamespace === 0 ? null : listener.networkNamespace,
        userId: listener.userId,
        addresses: new Set(pid === null ? [] : localAddresses.get(pid)),
      }));
      if (instance) expand(instance, listener);
    }
  }
  addLaunched(scan, namer, launched, listeners, add);
  if (isOn("connection_tracking")) addWorkers(scan, namer, listeners, callers, localAddresses, add);
  addAbsent(instances, namer, managed, add);
  return { instances: [...instances.values()], cut };
}

/** The first configured method that found the instance. */
function methodOf(config: AgentDiscoveryConfig, isCalling: boolean): ServiceInstance["method"] {
  const first = config.methods.find((method) => method === "listening_sockets" || (method === "connection_tracking" && isCalling));
  return first === "connection_tracking" ? "connection_tracking" : "listening_socket";
}

/** UDP has no listening state: a new socket on an ephemeral port is most likely a client's. */
function isClientSocket(scan: DiscoveryScan, { protocol, localPort, sinceScan }: TrackedSocket): boolean {
  return protocol === "udp" && scan.isEphemeral(localPort) && sinceScan === scan.number;
}

type Add = (key: string, make: () => ServiceInstance) => ServiceInstance | null;

/** Processes without a listener that call others. Command-line tools are skipped: they are not services. */
function addWorkers(
  scan: DiscoveryScan,
  namer: ServiceNamer,
  listeners: ReadonlySet<number>,
  callers: ReadonlySet<number>,
  localAddresses: ReadonlyMap<number, Set<string>>,
  add: Add,
): void {
  const calling = new Set<number>();
  for (const connection of scan.connections.values()) {
    const [pid] = connection.role === "client" ? scan.ownersOf(connection) : [];
    if (pid !== undefined) calling.add(pid);
  }
  for (const pid of new Set([...calling, ...callers])) {
    if (listeners.has(pid)) continue;
    const facts = scan.factsOf(pid);
    const name = facts && namer.ofProcess(pid);
    if (!facts || !name || isCommandLineTool(name.name)) continue;
    add(`worker ${pid}`, () => ({
      name,
      isManaged: false,
      method: "connection_tracking",
      protocol: null,
      port: null,
      address: null,
      facts,
      networkNamespace: facts.entry.networkNamespace,
      userId: facts.userId,
      addresses: new Set(localAddresses.get(pid)),
    }));
  }
}

/** Programs of `coral run` that do not listen, or not yet. */
function addLaunched(
  scan: DiscoveryScan,
  namer: ServiceNamer,
  launched: ReadonlyMap<number, string>,
  listeners: ReadonlySet<number>,
  add: Add,
): void {
  for (const pid of launched.keys()) {
    const facts = scan.factsOf(pid);
    const name = facts && namer.ofProcess(pid);
    if (!facts || !name || listeners.has(pid)) continue;
    const { networkNamespace } = facts.entry;
    add(`worker ${pid}`, () => ({
      name,
      isManaged: true,
      method: "manual",
      protocol: null,
      port: null,
      address: null,
      facts,
      networkNamespace,
      userId: facts.userId,
      addresses: new Set(),
    }));
  }
}

/** Registered services without a listener: they are down. */
function addAbsent(instances: ReadonlyMap<string, ServiceInstance>, namer: ServiceNamer, managed: ManagedServices, add: Add): void {
  const seen = new Set([...instances.values()].filter(({ isManaged }) => isManaged).map(({ port }) => port));
  for (const entry of managed.list()) {
    if (seen.has(entry.port)) continue;
    add(`absent ${entry.port}`, () => ({
      name: namer.absent(entry),
      isManaged: true,
      method: "manual",
      protocol: protocolOf(entry),
      port: entry.port,
      address: null,
      facts: null,
      networkNamespace: null,
      userId: 0,
      addresses: new Set(),
    }));
  }
}

/** Local addresses of each process's outgoing connections. */
function outgoingAddresses(scan: DiscoveryScan): Map<number, Set<string>> {
  const addresses = new Map<number, Set<string>>();
  for (const connection of scan.connections.values()) {
    if (connection.role !== "client" || !isReportable(connection.localAddress)) continue;
    const [pid] = scan.ownersOf(connection);
    if (pid === undefined) continue;
    const known = addresses.get(pid);
    if (known) known.add(connection.localAddress);
    else addresses.set(pid, new Set([connection.localAddress]));
  }
  return addresses;
}

function isReportable(address: string): boolean {
  return !isLoopback(address) && !isLinkLocal(address) && !isWildcard(address);
}

function widest(one: string | null, other: string): string {
  if (one === null || (isWildcard(other) && !isWildcard(one))) return other;
  // Of the two wildcards, the one that users search for.
  return isWildcard(one) && isWildcard(other) ? "0.0.0.0" : one;
}

function listText(list: readonly string[]): string | null {
  return list.length === 0 ? null : JSON.stringify(list);
}

/** Addresses reported per instance. */
const maxAddresses = 64;

/** Column names and order are those of the signal `service_instance`. */
export function instanceRow(
  instance: ServiceInstance,
  scan: DiscoveryScan,
  managed: ManagedServices,
  time: SampleTime,
  bootedAtMs: number,
  ticksPerS: number,
): ServiceInstanceRow {
  const { facts, name } = instance;
  const build = facts && scan.buildOf(facts);
  const health = instance.isManaged && instance.port !== null ? managed.healthOf(instance.port) : undefined;
  return {
    // No spread: it makes building an object of this size several times slower.
    at: time.at,
    mono_ms: time.mono_ms,
    service: name.service,
    name: name.name,
    origin: name.origin,
    qualifiers: listText(name.qualifiers),
    aliases: listText(name.aliases),
    named_by: name.namedBy,
    confidence: name.confidence,
    method: instance.method,
    protocol: instance.protocol,
    address: instance.address,
    port: instance.port,
    pid: facts?.entry.pid ?? null,
    start_ticks: facts?.entry.startTicks ?? null,
    started: facts ? Math.round((bootedAtMs + (facts.entry.startTicks * 1_000) / ticksPerS) * 1_000) : null,
    exe: facts?.exe ?? null,
    build: build?.id ?? null,
    build_kind: build?.kind ?? null,
    command_line: facts?.commandLine ?? null,
    environment: facts?.environment ?? null,
    user_id: facts?.userId ?? instance.userId,
    user_name: facts?.userName ?? null,
    cgroup: facts?.cgroup ?? null,
    container_id: facts?.containerId ?? null,
    container_name: facts?.containerName ?? null,
    unit: facts?.unit ?? null,
    netns: instance.networkNamespace,
    addresses: instance.addresses.size === 0 ? null : JSON.stringify([...instance.addresses].slice(0, maxAddresses)),
    managed: instance.isManaged,
    health: health?.state ?? null,
    health_detail: health?.detail ?? null,
  };
}
