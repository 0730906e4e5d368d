/** Names for the processes of one scan: what people said first, then what is surest; workers are called like what started them. */

import { remembered } from "../../base/remembered.ts";
import type { AgentDiscoveryConfig } from "../../config/index.ts";
import { type DiscoveryScan, nameInstance, type ServiceName, type TrackedSocket } from "../../host/index.ts";
import { type ManagedService, type ManagedServices, protocolOf } from "../managed/managed-services.ts";
import { launchedName } from "./launched-programs.ts";
import { listenersByPort, listenersByProcess, servingOwners } from "./listener-owners.ts";
import { ProcessFamilies } from "./process-families.ts";
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

/** A name that people or the host gave to this very process is not replaced by its parent's. */
const ownNameConfidence = 0.85;

export function createServiceNamer(options: ServiceNamerOptions): ServiceNamer {
  return new ScanNamer(options);
}

class ScanNamer implements ServiceNamer {
  readonly #scan: DiscoveryScan;
  readonly #config: AgentDiscoveryConfig;
  readonly #managed: ManagedServices;
  readonly #traffic: TrafficNames;
  /** What each process listens on. */
  readonly #listening: ReadonlyMap<number, ReadonlySet<TrackedSocket>>;
  readonly #families: ProcessFamilies;
  /** Ports that are listened on in the host's own namespace. */
  readonly #hostPorts: ReadonlySet<string>;
  #byPort: ReadonlyMap<number, readonly TrackedSocket[]> | undefined;
  // Names are asked for with every connection.
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
    // What people call its only named port is what they call the process.
    const said = new Map<string, ServiceName>();
    for (const listener of this.#listening.get(pid) ?? []) {
      const name = this.atListener(listener, pid);
      if (name.namedBy === "manual" || name.namedBy === "config") said.set(name.service, name);
    }
    const [only] = said.values();
    if (only && said.size === 1) return only;
    const process = this.#infer(pid);
    const seen = this.#trafficName(pid, null);
    return process === null && seen === undefined ? null : nameInstance({ process, port: null, traffic: seen });
  }

  #servedBy(listener: TrackedSocket, pid: number | null): ServiceName | null {
    const owners = servingOwners(this.#scan, listener);
    if (pid === null || owners.includes(pid)) return this.atListener(listener, pid ?? owners[0] ?? null);
    const own = this.ofProcess(pid);
    // A backend of its own for each connection is called like the one who listens; a program that inetd or systemd started is not.
    const head = owners.find((owner) => this.#infer(owner)?.service === own?.service);
    return head === undefined ? own : this.atListener(listener, head);
  }

  /** By what `coral run` was told, its own facts, or its ancestor's when it is a worker of the same program. */
  #infer(pid: number): ServiceName | null {
    return remembered(this.#inferred, pid, () => {
      const launched = this.#managed.launched?.();
      const given = launched && launchedName(launched, pid, (child) => this.#scan.processOf(child)?.parentPid);
      if (given) return { service: given, namedBy: "manual", confidence: 1 };
      const facts = this.#scan.factsOf(pid);
      if (!facts) return null;
      return (facts.name?.confidence ?? 0) >= ownNameConfidence ? facts.name : this.#families.headOf(facts).name;
    });
  }

  /** A port means the host's own; in a container's namespace only when nobody has it there. */
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
