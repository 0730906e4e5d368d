/** Names the processes of one scan: user-given names first, then the most certain source; workers get the name of their program. */

import { remembered } from "../../base/remembered.ts";
import type { AgentDiscoveryConfig } from "../../config/index.ts";
import { type DiscoveryScan, nameInstance, type ServiceName, type TrackedSocket } from "../../host/index.ts";
import { type ManagedService, type ManagedServices, protocolOf } from "../managed/managed-services.ts";
import { launchedName } from "./launched-programs.ts";
import { listenersByPort, listenersByProcess, servingOwners } from "./listener-owners.ts";
import { ProcessFamilies } from "./process-families.ts";

/** Where a name was seen in traffic: the host of HTTP requests, or the name of a gRPC service. */
export type TrafficSource = "http_host" | "grpc_service";

/** Service names learned from traffic, by process and port. */
export interface TrafficNames {
  nameOf(instance: { pid: number; startTicks: number; port: number | null }, sources: readonly TrafficSource[]): string | undefined;
}

/** For agents that do not inspect traffic. */
export const noTrafficNames: TrafficNames = { nameOf: () => undefined };

export interface ServiceNamerOptions {
  scan: DiscoveryScan;
  config: AgentDiscoveryConfig;
  managed: ManagedServices;
  traffic: TrafficNames;
}

export interface InstanceName extends ServiceName {
  /** The service that `coral connect` registered at the port. */
  managed: ManagedService | undefined;
}

export interface ServiceNamer {
  /** The name of a process at a listener; pid null when the owner is unknown. */
  atListener(listener: TrackedSocket, pid: number | null): InstanceName;
  /** The name of a process as a whole, for its outgoing connections. Null when no source has one. */
  ofProcess(pid: number): ServiceName | null;
  /** The name of the server's end of a connection. */
  atServer(connection: TrackedSocket, pid: number | null): ServiceName | null;
  /** The name of a process that serves a port, whichever process listens there. Null when no source has one. */
  atPort(pid: number, port: number): ServiceName | null;
  /** The topmost process of its family, which shares names learned from traffic. Undefined when the process does not run. */
  headOf(pid: number): { pid: number; startTicks: number } | undefined;
}

/** From this confidence on, a process keeps its own name instead of its parent's. */
const ownNameConfidence = 0.85;

export function createServiceNamer(options: ServiceNamerOptions): ServiceNamer {
  return new ScanNamer(options);
}

class ScanNamer implements ServiceNamer {
  readonly #scan: DiscoveryScan;
  readonly #config: AgentDiscoveryConfig;
  readonly #managed: ManagedServices;
  readonly #traffic: TrafficNames;
  /** The listeners of each process. */
  readonly #listening: ReadonlyMap<number, ReadonlySet<TrackedSocket>>;
  readonly #families: ProcessFamilies;
  /** Listening ports in the host's network namespace. */
  readonly #hostPorts: ReadonlySet<string>;
  #byPort: ReadonlyMap<number, readonly TrackedSocket[]> | undefined;
  // Cached: names are looked up for every connection.
  readonly #inferred = new Map<number, ServiceName | null>();
  readonly #ofProcesses = new Map<number, ServiceName | null>();
  readonly #atListeners = new Map<TrackedSocket, Map<number | null, InstanceName>>();

  constructor({ scan, config, managed, traffic }: ServiceNamerOptions) {
    this.#scan = scan;
    this.#config = config;
    this.#managed = managed;
    this.#traffic = traffic;
    this.#listening = listenersByProcess(scan);
    this.#families = new ProcessFamilies(scan, this.#listening);
    this.#hostPorts = new Set([...scan.listeners.values()].filter((listener) => this.#isOnHost(listener)).map(portKey));
  }

  atListener(listener: TrackedSocket, pid: number | null): InstanceName {
    const named = remembered(this.#atListeners, listener, () => new Map<number | null, InstanceName>());
    return remembered(named, pid, () => this.#nameAtListener(listener, pid));
  }

  ofProcess(pid: number): ServiceName | null {
    return remembered(this.#ofProcesses, pid, () => this.#nameWhole(pid));
  }

  atServer(connection: TrackedSocket, pid: number | null): ServiceName | null {
    const [listener] = this.#scan.listenersOf(connection);
    if (!listener) return pid === null ? null : this.ofProcess(pid);
    return this.#servedBy(listener, pid);
  }

  atPort(pid: number, port: number): ServiceName | null {
    this.#byPort ??= listenersByPort(this.#scan);
    const namespace = this.#scan.processOf(pid)?.networkNamespace ?? null;
    const here = (this.#byPort.get(port) ?? []).filter((listener) => namespace === null || listener.networkNamespace === namespace);
    const own = here.find((listener) => servingOwners(this.#scan, listener).includes(pid)) ?? here[0];
    return own ? this.#servedBy(own, pid) : this.ofProcess(pid);
  }

  headOf(pid: number): { pid: number; startTicks: number } | undefined {
    const entry = this.#scan.processOf(pid);
    if (!entry) return undefined;
    const facts = this.#scan.factsOf(pid);
    const head = facts ? this.#families.headOf(facts).entry : entry;
    return { pid: head.pid, startTicks: head.startTicks };
  }

  #nameAtListener(listener: TrackedSocket, pid: number | null): InstanceName {
    const port = listener.localPort;
    const managed = this.#managedAt(listener);
    const name = nameInstance({
      process: pid === null ? null : this.#infer(pid),
      port,
      manual: managed?.name,
      mapped: this.#config.names.portMapping[String(port)],
      traffic: this.#trafficName(pid, port),
    });
    return { ...name, managed };
  }

  #nameWhole(pid: number): ServiceName | null {
    // A process with a single user-named port has the name of that port.
    const given = new Map<string, ServiceName>();
    for (const listener of this.#listening.get(pid) ?? []) {
      const name = this.atListener(listener, pid);
      if (name.namedBy === "manual" || name.namedBy === "config") given.set(name.service, name);
    }
    const [only] = given.values();
    if (only && given.size === 1) return only;
    const process = this.#infer(pid);
    const seen = this.#trafficName(pid, null);
    return process === null && seen === undefined ? null : nameInstance({ process, port: null, traffic: seen });
  }

  #servedBy(listener: TrackedSocket, pid: number | null): ServiceName | null {
    const owners = servingOwners(this.#scan, listener);
    if (pid === null || owners.includes(pid)) return this.atListener(listener, pid ?? owners[0] ?? null);
    const own = this.ofProcess(pid);
    // A per-connection backend has the name of its listener; a program started by inetd or systemd has its own.
    const head = owners.find((owner) => this.#infer(owner)?.service === own?.service);
    return head === undefined ? own : this.atListener(listener, head);
  }

  /** From `coral run`, the process's own facts, or those of its program when it is a worker. */
  #infer(pid: number): ServiceName | null {
    return remembered(this.#inferred, pid, () => {
      const launched = this.#managed.launched?.();
      const launchName = launched && launchedName(launched, pid, (child) => this.#scan.processOf(child)?.parentPid);
      if (launchName) return { service: launchName, namedBy: "manual", confidence: 1 };
      const facts = this.#scan.factsOf(pid);
      if (!facts) return null;
      return (facts.name?.confidence ?? 0) >= ownNameConfidence ? facts.name : this.#families.headOf(facts).name;
    });
  }

  /** A registered port means the host's namespace, and a container's only when no process on the host has the port. */
  #managedAt(listener: TrackedSocket): ManagedService | undefined {
    const entry = this.#managed.byPort(listener.localPort);
    const isMeant = entry !== undefined && protocolOf(entry) === listener.protocol;
    return isMeant && (this.#isOnHost(listener) || !this.#hostPorts.has(portKey(listener))) ? entry : undefined;
  }

  #trafficName(pid: number | null, port: number | null): string | undefined {
    const head = pid === null ? undefined : this.headOf(pid);
    if (!head || !this.#config.methods.includes("traffic_inspection")) return undefined;
    return this.#traffic.nameOf({ ...head, port }, this.#config.trafficSources);
  }

  #isOnHost(listener: TrackedSocket): boolean {
    return listener.networkNamespace === this.#scan.hostNamespace;
  }
}

function portKey(listener: TrackedSocket): string {
  return `${listener.protocol} ${listener.localPort}`;
}
