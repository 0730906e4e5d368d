/**
 * Identifies and names the processes of one scan. The origin decides which service a process is; the name is a label: the user's first, then
 * the most certain source. Workers share both with their program.
 */

import { remembered } from "../../base/remembered.ts";
import type { AgentDiscoveryConfig } from "../../config/index.ts";
import {
  type DiscoveryScan,
  type GivenName,
  nameInstance,
  originAtPort,
  originOfNamedPort,
  originOfRun,
  type ProcessFacts,
  type TrackedSocket,
} from "../../host/index.ts";
import type { OriginKind, ServiceOrigin } from "../../model/service-identity.ts";
import { type ManagedService, type ManagedServices, protocolOf } from "../managed/managed-services.ts";
import { isCommandLineTool } from "./command-line-tools.ts";
import { launchedName } from "./launched-programs.ts";
import { listenersByPort, listenersByProcess, servingOwners } from "./listener-owners.ts";
import { ProcessFamilies } from "./process-families.ts";
import type { ProcessKey, ServiceIdentities } from "./service-identities.ts";

/** Where a name was seen in traffic: the host of HTTP requests, or the name of a gRPC service. */
export type TrafficSource = "http_host" | "grpc_service";

/** What clients call services. */
export interface TrafficNames {
  /** The most requested name at a port whose process is unknown. */
  nameAtPort(port: number, sources: readonly TrafficSource[]): string | undefined;
  /** Names that clients request from a process, most requested first; by `processKey` of the topmost process of a family. */
  aliases(): ReadonlyMap<string, readonly string[]>;
}

/** Unique until the next boot: a reused pid has another start time. */
export function processKey({ pid, startTicks }: ProcessKey): string {
  return `${pid} ${startTicks}`;
}

/** For agents that do not inspect traffic. */
export const noTrafficNames: TrafficNames = { nameAtPort: () => undefined, aliases: () => new Map() };

export interface ServiceNamerOptions {
  scan: DiscoveryScan;
  config: AgentDiscoveryConfig;
  managed: ManagedServices;
  traffic: TrafficNames;
  /** Shared by all scans. */
  identities: ServiceIdentities;
}

/** The id of a service with what people see of it. */
export interface ServiceName extends GivenName {
  /** The id that rows carry. */
  service: string;
  /** What the id was made from, for people. */
  origin: string;
  /** Shortest first. */
  qualifiers: readonly string[];
  /** Other names that commands understand. */
  aliases: readonly string[];
}

/** The name at one listener. */
export interface InstanceName extends ServiceName {
  /** The service that `coral connect` registered at the port. */
  managed: ManagedService | undefined;
}

/** Valid for one scan. */
export interface ServiceNamer {
  /** The service of a process at a listener; pid null when the owner is unknown. */
  atListener(listener: TrackedSocket, pid: number | null): InstanceName;
  /** The service of a process as a whole, for its outgoing connections. Null when nothing is known about it. */
  ofProcess(pid: number): ServiceName | null;
  /** The service at the server's end of a connection. */
  atServer(connection: TrackedSocket, pid: number | null): ServiceName | null;
  /** The service of a process that serves a port, whichever process listens there. Null when nothing is known about it. */
  atPort(pid: number, port: number): ServiceName | null;
  /** A registered service that does not listen: the one last seen at its port. */
  absent(entry: ManagedService): ServiceName;
  /** The topmost process of its family, which shares names learned from traffic. Undefined when the process does not run. */
  headOf(pid: number): ProcessKey | undefined;
}

/** From this confidence on, a process keeps its own name instead of its parent's. */
const ownNameConfidence = 0.85;
/** Origins that a whole group of processes shares; others are those of the topmost process. */
const ownOrigins: ReadonlySet<OriginKind> = new Set(["workload", "container", "unit"]);
/** Aliases per service, which SQL and commands accept. */
const maxAliases = 16;

export function createServiceNamer(options: ServiceNamerOptions): ServiceNamer {
  return new ScanNamer(options);
}

/** Names that users gave to ports of one service. */
type GivenPorts = Map<number, GivenName>;

/** Lazy and cached: most scans name a few processes only, but look each of them up for every connection. */
class ScanNamer implements ServiceNamer {
  readonly #scan: DiscoveryScan;
  readonly #config: AgentDiscoveryConfig;
  readonly #managed: ManagedServices;
  readonly #traffic: TrafficNames;
  readonly #identities: ServiceIdentities;
  /** The listeners of each process. */
  readonly #listening: ReadonlyMap<number, ReadonlySet<TrackedSocket>>;
  readonly #families: ProcessFamilies;
  /** Listening ports in the host's network namespace. */
  readonly #hostPorts: ReadonlySet<string>;
  #byPort: ReadonlyMap<number, readonly TrackedSocket[]> | undefined;
  #familyPorts: ReadonlyMap<number, readonly TrackedSocket[]> | undefined;
  #givenById: ReadonlyMap<string, GivenPorts> | undefined;
  #aliasesByHead: ReadonlyMap<string, readonly string[]> | undefined;
  // Cached: names are looked up for every connection.
  readonly #origins = new Map<number, ServiceOrigin | null>();
  readonly #inferred = new Map<number, GivenName | null>();
  readonly #ofProcesses = new Map<number, ServiceName | null>();
  readonly #atListeners = new Map<TrackedSocket, Map<number | null, InstanceName>>();

  constructor({ scan, config, managed, traffic, identities }: ServiceNamerOptions) {
    this.#scan = scan;
    this.#config = config;
    this.#managed = managed;
    this.#traffic = traffic;
    this.#identities = identities;
    this.#listening = listenersByProcess(scan);
    this.#families = new ProcessFamilies(scan, this.#listening);
    this.#hostPorts = new Set([...scan.listeners.values()].filter((listener) => this.#isOnHost(listener)).map(portKey));
    identities.beginScan(
      ({ pid, startTicks }) => scan.processOf(pid)?.startTicks === startTicks,
      (port) => managed.byPort(port) !== undefined,
    );
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
    return own ? this.#servedBy(own, pid) : this.#servesAlready(pid, port);
  }

  absent(entry: ManagedService): ServiceName {
    const origin = this.#identities.lastAt(entry.port, protocolOf(entry));
    return this.#named(origin, { name: entry.name, namedBy: "manual", confidence: 1 }, null);
  }

  headOf(pid: number): ProcessKey | undefined {
    const entry = this.#scan.processOf(pid);
    if (!entry) return undefined;
    const facts = this.#scan.factsOf(pid);
    const head = facts ? this.#families.headOf(facts).entry : entry;
    return { pid: head.pid, startTicks: head.startTicks };
  }

  /** Requests may arrive before the scan that finds the listener. Until then only their port distinguishes copies of one program. */
  #servesAlready(pid: number, port: number): ServiceName | null {
    const whole = this.ofProcess(pid);
    const facts = this.#scan.factsOf(pid);
    if (whole === null || !facts || this.#launchName(pid) !== undefined) return whole;
    const head = this.#families.headOf(facts);
    const { origin } = ownOrigins.has(facts.origin.kind) ? facts : head;
    if (!origin.isIdentifiedByPort || this.#identities.portOf(head.entry, () => null) !== null) return whole;
    const { id: service, text, qualifiers } = originAtPort(origin, port);
    return { ...whole, service, origin: text, qualifiers };
  }

  #nameAtListener(listener: TrackedSocket, pid: number | null): InstanceName {
    const port = listener.localPort;
    const managed = this.#managedAt(listener);
    const base = this.#originAt(pid, port);
    const inferred = pid === null ? null : this.#infer(pid);
    const { origin, given } = this.#givenAt(base, port);
    // Without a known owner, a name applies to its own port only.
    const people = pid === null ? { manual: managed?.name, mapped: this.#config.names.portMapping[String(port)] } : {};
    const traffic = inferred === null && this.#usesTraffic() ? this.#traffic.nameAtPort(port, this.#config.trafficSources) : undefined;
    const name = this.#named(origin, given ?? nameInstance({ process: inferred, port, traffic, ...people }), pid);
    if (managed || this.#isOnHost(listener)) this.#identities.seenAt(port, listener.protocol, origin, managed !== undefined);
    return { ...name, managed };
  }

  #nameWhole(pid: number): ServiceName | null {
    const base = this.#originOf(pid);
    if (base === null) return null;
    const own = [...(this.#listening.get(pid) ?? [])].map(({ localPort }) => localPort);
    const named = own.map((port) => this.#givenAt(base, port)).filter(({ given }) => given !== undefined);
    // A process with a single user-named port is the service at that port.
    const isOne = new Set(named.map(({ given }) => given?.name)).size === 1;
    const { origin, given } = (isOne ? named[0] : undefined) ?? this.#givenAt(base, null);
    return this.#named(origin, given ?? this.#infer(pid) ?? processName(this.#scan, pid), pid);
  }

  /** A single user-given port name names the whole service; different names make each of these ports a separate service. */
  #givenAt(base: ServiceOrigin, port: number | null): { origin: ServiceOrigin; given: GivenName | undefined } {
    this.#givenById ??= this.#readGiven();
    const given = this.#givenById.get(base.id);
    if (!given) return { origin: base, given: undefined };
    const [only, ...others] = [...new Set([...given.values()].map(({ name }) => name))];
    if (others.length === 0) return { origin: base, given: [...given.values()].find(({ name }) => name === only) };
    const here = port === null ? undefined : given.get(port);
    return here && port !== null ? { origin: originOfNamedPort(base, port), given: here } : { origin: base, given: undefined };
  }

  /** Names from `coral connect` and from ports in the config, by the id of the service that listens there. */
  #readGiven(): Map<string, GivenPorts> {
    const found = new Map<string, GivenPorts>();
    for (const listener of this.#scan.listeners.values()) {
      const port = listener.localPort;
      const mapped = this.#config.names.portMapping[String(port)];
      const manual = this.#managedAt(listener)?.name;
      if (manual === undefined && mapped === undefined) continue;
      const owners = servingOwners(this.#scan, listener);
      for (const pid of owners.length > 0 ? owners : [null]) {
        const ports = remembered(found, this.#originAt(pid, port).id, () => new Map());
        const given = nameInstance({ process: null, port, manual, mapped });
        if (given.namedBy !== "port" && ports.get(port)?.namedBy !== "manual") ports.set(port, given);
      }
    }
    return found;
  }

  #named(origin: ServiceOrigin, given: GivenName, pid: number | null): ServiceName {
    const inferred = pid === null ? null : this.#infer(pid);
    const seen = pid === null ? [] : this.#aliasesOf(pid);
    const aliases = [...new Set([...(inferred ? [inferred.name] : []), ...seen])].filter((alias) => alias !== given.name);
    const { id: service, text, qualifiers } = origin;
    return { service, ...given, origin: text, qualifiers, aliases: aliases.slice(0, maxAliases) };
  }

  #originAt(pid: number | null, port: number): ServiceOrigin {
    return (pid === null ? null : this.#originOf(pid)) ?? this.#identities.atPort(port);
  }

  /** From `coral run`, from the process's group (container or unit), or from its program. */
  #originOf(pid: number): ServiceOrigin | null {
    return remembered(this.#origins, pid, () => {
      const facts = this.#scan.factsOf(pid);
      const run = this.#launchName(pid);
      if (run !== undefined) return originOfRun(run, facts?.origin ?? null);
      if (!facts) return null;
      const head = this.#families.headOf(facts);
      const { origin } = ownOrigins.has(facts.origin.kind) ? facts : head;
      const port = this.#identities.portOf(head.entry, () => this.#decidingPort(head));
      const name = head.name?.name ?? "";
      if (port === null && origin.kind === "program" && isCommandLineTool(name)) return { ...origin, id: name };
      return originAtPort(origin, port);
    });
  }

  /** The lowest listening port of a process and its workers: TCP before UDP, ports that the kernel assigned last. */
  #decidingPort({ entry }: ProcessFacts): number | null {
    this.#familyPorts ??= this.#portsOfFamilies();
    const rank = ({ localPort, protocol }: TrackedSocket): number =>
      (this.#scan.isEphemeral(localPort) ? 2e5 : 0) + (protocol === "udp" ? 1e5 : 0) + localPort;
    const [lowest] = [...(this.#familyPorts.get(entry.pid) ?? [])].sort((a, b) => rank(a) - rank(b));
    return lowest?.localPort ?? null;
  }

  #portsOfFamilies(): Map<number, TrackedSocket[]> {
    const ports = new Map<number, TrackedSocket[]>();
    for (const [pid, listeners] of this.#listening) {
      const facts = this.#scan.factsOf(pid);
      if (facts) remembered(ports, this.#families.headOf(facts).entry.pid, () => []).push(...listeners);
    }
    return ports;
  }

  #aliasesOf(pid: number): readonly string[] {
    if (!this.#usesTraffic()) return [];
    this.#aliasesByHead ??= this.#traffic.aliases();
    if (this.#aliasesByHead.size === 0) return [];
    const head = this.headOf(pid);
    return (head && this.#aliasesByHead.get(processKey(head))) ?? [];
  }

  #usesTraffic(): boolean {
    return this.#config.methods.includes("traffic_inspection");
  }

  #launchName(pid: number): string | undefined {
    const launched = this.#managed.launched?.();
    return launched && launchedName(launched, pid, (child) => this.#scan.processOf(child)?.parentPid);
  }

  #servedBy(listener: TrackedSocket, pid: number | null): ServiceName | null {
    const owners = servingOwners(this.#scan, listener);
    if (pid === null || owners.includes(pid)) return this.atListener(listener, pid ?? owners[0] ?? null);
    const own = this.ofProcess(pid);
    // A per-connection backend has the name of its listener; a program started by inetd or systemd has its own.
    const id = this.#originOf(pid)?.id;
    const head = owners.find((owner) => this.#originOf(owner)?.id === id);
    return head === undefined ? own : this.atListener(listener, head);
  }

  /** From `coral run`, the process's own facts, or those of its program when it is a worker. */
  #infer(pid: number): GivenName | null {
    return remembered(this.#inferred, pid, () => {
      const run = this.#launchName(pid);
      if (run !== undefined) return { name: run, namedBy: "manual", confidence: 1 };
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

  #isOnHost(listener: TrackedSocket): boolean {
    return listener.networkNamespace === this.#scan.hostNamespace;
  }
}

/** The last resort: the kernel's name of the process. */
function processName(scan: DiscoveryScan, pid: number): GivenName {
  return { name: scan.processOf(pid)?.name ?? "unknown", namedBy: "process-name", confidence: 0.3 };
}

function portKey(listener: TrackedSocket): string {
  return `${listener.protocol} ${listener.localPort}`;
}
