/** Names for the processes of one scan: what people said first, then what is surest; workers are called like what started them. */

import type { AgentDiscoveryConfig } from "../config/index.ts";
import { type DiscoveryScan, nameInstance, type ProcessFacts, type ServiceName, type TrackedSocket } from "../host/index.ts";
import { launchedName } from "./launched-programs.ts";
import { servingOwners } from "./listener-owners.ts";
import { type ManagedService, type ManagedServices, protocolOf } from "./managed-services.ts";
import type { TrafficNames } from "./traffic-names.ts";

export interface ServiceNamerOptions {
  scan: DiscoveryScan;
  config: AgentDiscoveryConfig;
  managed: ManagedServices;
  traffic: TrafficNames;
}

export interface InstanceName extends ServiceName {
  /** What `coral connect` says about the port. */
  managed: ManagedService | undefined;
}

export interface ServiceNamer {
  /** Of a process at a port that it listens on; pid null when the owner is unknown. */
  atListener(listener: TrackedSocket, pid: number | null): InstanceName;
  /** Of a process as a whole, for what it calls. Null when nothing names it. */
  ofProcess(pid: number): ServiceName | null;
  /** Of the end of a connection that was called. */
  atServer(connection: TrackedSocket, pid: number | null): ServiceName | null;
  /** Of a process that answers at a port, whoever listens there. Null when nothing names it. */
  atPort(pid: number, port: number): ServiceName | null;
  /** Who started a worker, itself for others: what traffic says of one of them holds for all. Undefined when it does not run. */
  headOf(pid: number): { pid: number; startTicks: number } | undefined;
}

/** Process managers: their children are services of their own, though they run in the same interpreter. */
const managers = /^(?:pm2|supervisord?|foreman|honcho|overmind|npm|yarn|pnpm|concurrently|systemd|init|tini|dumb-init|s6-.*)$/i;
const maxAncestors = 8;
/** A name that people or the host gave to this very process is not replaced by its parent's. */
const ownNameConfidence = 0.85;

export function createServiceNamer(options: ServiceNamerOptions): ServiceNamer {
  const { scan, config, managed, traffic } = options;
  const names = new Map<number, ServiceName | null>();
  const listening = portsByProcess(scan);
  const hostPorts = new Set([...scan.listeners.values()].filter(isOnHost).map(portKey));

  function isOnHost(listener: TrackedSocket): boolean {
    return listener.networkNamespace === scan.hostNamespace;
  }

  /** A port means the host's own; in a container's namespace only when nobody has it there. */
  const managedAt = (listener: TrackedSocket): ManagedService | undefined => {
    const entry = managed.byPort(listener.localPort);
    const isMeant = entry !== undefined && protocolOf(entry) === listener.protocol;
    return isMeant && (isOnHost(listener) || !hostPorts.has(portKey(listener))) ? entry : undefined;
  };

  const trafficName = (pid: number | null, port: number | null): string | undefined => {
    const head = pid === null ? undefined : headOf(pid);
    if (!head || !config.methods.includes("traffic_inspection")) return undefined;
    return traffic.nameOf({ ...head, port }, config.trafficSources);
  };

  const headOf: ServiceNamer["headOf"] = (pid) => {
    const entry = scan.processOf(pid);
    if (!entry) return undefined;
    const facts = scan.factsOf(pid);
    const head = facts ? familyHead(facts).entry : entry;
    return { pid: head.pid, startTicks: head.startTicks };
  };

  /** By its own facts, or its ancestor's when it is a worker of the same program. */
  const inferred = (pid: number): ServiceName | null => {
    const known = names.get(pid);
    if (known !== undefined) return known;
    const facts = scan.factsOf(pid);
    const given = managed.launched && launchedName(managed.launched(), pid, (child) => scan.processOf(child)?.parentPid);
    const name: ServiceName | null = given ? { service: given, namedBy: "manual", confidence: 1 } : facts ? nameOfFamily(facts) : null;
    names.set(pid, name);
    return name;
  };

  function nameOfFamily(facts: ProcessFacts): ServiceName | null {
    return (facts.name?.confidence ?? 0) >= ownNameConfidence ? facts.name : familyHead(facts).name;
  }

  function familyHead(facts: ProcessFacts): ProcessFacts {
    let head = facts;
    for (let depth = 0; depth < maxAncestors; depth++) {
      const parent = scan.factsOf(head.entry.parentPid);
      if (!parent || parent.entry.pid === 1 || !isWorkerOf(head, parent)) break;
      head = parent;
    }
    return head;
  }

  function isWorkerOf(child: ProcessFacts, parent: ProcessFacts): boolean {
    if (child.exe === null || child.exe !== parent.exe || child.containerId !== parent.containerId) return false;
    if (parent.name === null || managers.test(parent.name.service)) return false;
    return child.script === parent.script || sharesPort(child.entry.pid, parent.entry.pid);
  }

  /** A child that runs another script still serves its parent's port when it holds the socket, or connections that came in through it. */
  function sharesPort(childPid: number, parentPid: number): boolean {
    const ports = listening.get(parentPid);
    if (!ports) return false;
    for (const socket of listening.get(childPid) ?? []) if (ports.has(socket)) return true;
    return servedFrom().get(childPid)?.has(parentPid) ?? false;
  }

  let served: Map<number, Set<number>> | undefined;
  function servedFrom(): Map<number, Set<number>> {
    served ??= connectionsByListenerOwner(scan);
    return served;
  }

  /** Asked for every connection. */
  const atListeners = new Map<TrackedSocket, Map<number | null, InstanceName>>();
  const ofProcesses = new Map<number, ServiceName | null>();

  const atListener = (listener: TrackedSocket, pid: number | null): InstanceName => {
    let named = atListeners.get(listener);
    if (!named) {
      named = new Map();
      atListeners.set(listener, named);
    }
    let name = named.get(pid);
    if (!name) {
      name = nameAtListener(listener, pid);
      named.set(pid, name);
    }
    return name;
  };

  const nameAtListener = (listener: TrackedSocket, pid: number | null): InstanceName => {
    const port = listener.localPort;
    const entry = managedAt(listener);
    const name = nameInstance({
      process: pid === null ? null : inferred(pid),
      port,
      manual: entry?.name,
      mapped: config.names.portMapping[String(port)],
      traffic: trafficName(pid, port),
    });
    return { ...name, managed: entry };
  };

  const ofProcess = (pid: number): ServiceName | null => {
    const known = ofProcesses.get(pid);
    if (known !== undefined) return known;
    const name = nameWhole(pid);
    ofProcesses.set(pid, name);
    return name;
  };

  const nameWhole = (pid: number): ServiceName | null => {
    // What people call its only named port is what they call the process.
    const said = new Map<string, ServiceName>();
    for (const listener of listening.get(pid) ?? []) {
      const name = atListener(listener, pid);
      if (name.namedBy === "manual" || name.namedBy === "config") said.set(name.service, name);
    }
    const [only] = said.values();
    if (only && said.size === 1) return only;
    const process = inferred(pid);
    const seen = trafficName(pid, null);
    return process === null && seen === undefined ? null : nameInstance({ process, port: null, traffic: seen });
  };

  const servedBy = (listener: TrackedSocket, pid: number | null): ServiceName | null => {
    const owners = servingOwners(scan, listener);
    if (pid === null || owners.includes(pid)) return atListener(listener, pid ?? owners[0] ?? null);
    const own = ofProcess(pid);
    // A backend of its own for each connection is called like the one who listens; a program that inetd or systemd started is not.
    const head = owners.find((owner) => inferred(owner)?.service === own?.service);
    return head === undefined ? own : atListener(listener, head);
  };

  let byPort: Map<number, TrackedSocket[]> | undefined;
  const listenersAt = (port: number): readonly TrackedSocket[] => {
    byPort ??= groupByPort(scan);
    return byPort.get(port) ?? [];
  };

  return {
    atListener,
    ofProcess,
    headOf,
    atServer: (connection, pid) => {
      const [listener] = scan.listenersOf(connection);
      if (!listener) return pid === null ? null : ofProcess(pid);
      return servedBy(listener, pid);
    },
    atPort: (pid, port) => {
      const namespace = scan.processOf(pid)?.networkNamespace ?? null;
      const here = listenersAt(port).filter((listener) => namespace === null || listener.networkNamespace === namespace);
      const own = here.find((listener) => servingOwners(scan, listener).includes(pid)) ?? here[0];
      return own ? servedBy(own, pid) : ofProcess(pid);
    },
  };
}

function groupByPort(scan: DiscoveryScan): Map<number, TrackedSocket[]> {
  const ports = new Map<number, TrackedSocket[]>();
  for (const listener of scan.listeners.values()) {
    const known = ports.get(listener.localPort);
    if (known) known.push(listener);
    else ports.set(listener.localPort, [listener]);
  }
  return ports;
}

function portKey(listener: TrackedSocket): string {
  return `${listener.protocol} ${listener.localPort}`;
}

function portsByProcess(scan: DiscoveryScan): Map<number, Set<TrackedSocket>> {
  const ports = new Map<number, Set<TrackedSocket>>();
  for (const listener of scan.listeners.values()) {
    for (const pid of servingOwners(scan, listener)) {
      const sockets = ports.get(pid);
      if (sockets) sockets.add(listener);
      else ports.set(pid, new Set([listener]));
    }
  }
  return ports;
}

/** For each process that holds accepted connections: whose listeners they came in through. */
function connectionsByListenerOwner(scan: DiscoveryScan): Map<number, Set<number>> {
  const served = new Map<number, Set<number>>();
  for (const connection of scan.connections.values()) {
    if (connection.role !== "server") continue;
    for (const pid of scan.ownersOf(connection)) {
      const from = served.get(pid) ?? new Set();
      for (const listener of scan.listenersOf(connection)) for (const owner of servingOwners(scan, listener)) from.add(owner);
      served.set(pid, from);
    }
  }
  return served;
}
