/** Simulated agents that report services and connections to a real store, with a clock that only the test moves. */

import type { EdgeFact, EdgePageRequest, NetworkFacts } from "../../model/edges.ts";
import { queryEdges } from "../queries/query-edges.ts";
import { openStoredHosts, type SignalRows, type StoredHosts } from "../queries/stored-hosts.fixture.ts";
import type { RowOf } from "../signals/define-signal.ts";
import type { connection, serviceInstance } from "../signals/discovery.ts";
import { TestClock } from "../store.fixture.ts";
import { DiscoveryCycle, type DiscoveryCycleResult } from "./discovery-cycle.ts";
import { type DiscoverySettings, defaultDiscoverySettings } from "./discovery-settings.ts";

export type InstanceValues = Partial<RowOf<typeof serviceInstance.columns>>;
export type ConnectionValues = Partial<RowOf<typeof connection.columns>>;

export interface WatchedHosts extends AsyncDisposable {
  readonly hosts: StoredHosts;
  clock: TestClock;
  settings: DiscoverySettings;
  /** Stores one scan of an agent, at the current time. */
  scan(agentId: string, instances: InstanceValues[], connections?: ConnectionValues[], epoch?: string): Promise<void>;
  /** Stores scans of several agents in one transaction. */
  scanAll(scans: readonly { agentId: string; instances: InstanceValues[]; connections?: ConnectionValues[] }[]): Promise<void>;
  cycle(): Promise<DiscoveryCycleResult>;
  /** Advances the clock until every end has settled; agents keep scanning. */
  settle(): Promise<void>;
  edges(query?: { sinceMs?: number; service?: string; agentIds?: string[]; page?: EdgePageRequest }): Promise<NetworkFacts>;
  /** `api -> postgres:5432 INTERNAL 0.9`, sorted. */
  summary(): Promise<string[]>;
  events(): Promise<{ kind: string; message: string; details: Record<string, unknown> }[]>;
  reopen(): Promise<void>;
}

export async function watchHosts(settings: Partial<DiscoverySettings> = {}, options: { hasDerived?: boolean } = {}): Promise<WatchedHosts> {
  const clock = new TestClock();
  const hosts = await openStoredHosts(clock, options);
  const current = { ...defaultDiscoverySettings, ...settings };
  const newCycle = (): DiscoveryCycle => new DiscoveryCycle({ store: hosts.store, settings: () => current, clock });
  let cycle = newCycle();
  const rowsOf = (instances: InstanceValues[], connections: ConnectionValues[]): SignalRows => {
    const atMs = clock.wallMs();
    const named = { atMs, method: "listening_socket", named_by: "pattern", confidence: 0.8 };
    return {
      ...(instances.length === 0 ? {} : { serviceInstance: instances.map((values) => ({ ...named, ...values })) }),
      ...(connections.length === 0 ? {} : { connection: connections.map((values) => connectionRow(atMs, values)) }),
    };
  };
  const watched: WatchedHosts = {
    hosts,
    clock,
    settings: current,
    scan: (agentId, instances, connections = [], epoch = "epoch-1") => hosts.add(agentId, rowsOf(instances, connections), epoch),
    scanAll: (scans) =>
      hosts.addAll(scans.map(({ agentId, instances, connections = [] }) => ({ agentId, rows: rowsOf(instances, connections) }))),
    cycle: () => cycle.run(),
    settle: async () => {
      await cycle.run();
      clock.pass(100_000);
      await cycle.run();
    },
    edges: ({ sinceMs = 3_600_000, ...rest } = {}) =>
      queryEdges(hosts.store, { sinceMs, nowMs: clock.wallMs(), database: hosts.store.database.name, ...rest }),
    summary: async () => (await watched.edges()).edges.map(edgeText).sort(),
    events: async () => {
      const rows = await hosts.store.query("SELECT kind, message, details FROM registry.events ORDER BY occurred_at, kind, message");
      return rows.map((row) => ({
        kind: String(row["kind"]),
        message: String(row["message"]),
        details: JSON.parse(String(row["details"])) as Record<string, unknown>,
      }));
    },
    reopen: async () => {
      await hosts.reopen();
      cycle = newCycle();
    },
    [Symbol.asyncDispose]: () => hosts[Symbol.asyncDispose](),
  };
  return watched;
}

function connectionRow(atMs: number, values: ConnectionValues): ConnectionValues & { atMs: number } {
  return {
    atMs,
    protocol: "tcp",
    netns: 1,
    attribution: (values.service ?? null) === null ? null : "process_fd",
    state: "open",
    first_seen: atMs * 1_000,
    last_seen: atMs * 1_000,
    connections: 1,
    ...values,
  };
}

/** `client("api", "10.0.1.5:45678", "10.0.2.8:5432")`: an end that calls. Service null is unattributed. */
export function client(service: string | null, from: string, to: string, more: ConnectionValues = {}): ConnectionValues {
  return { role: "client", service, ...addresses(from, to), ...more };
}

/** The called end. */
export function server(service: string | null, from: string, to: string, more: ConnectionValues = {}): ConnectionValues {
  return { role: "server", service, ...addresses(from, to), ...more };
}

function addresses(from: string, to: string): ConnectionValues {
  const split = (text: string): [string, number] => [text.slice(0, text.lastIndexOf(":")), Number(text.slice(text.lastIndexOf(":") + 1))];
  const [clientAddress, clientPort] = split(from);
  const [serverAddress, serverPort] = split(to);
  return { client_address: clientAddress, client_port: clientPort, server_address: serverAddress, server_port: serverPort };
}

/** A service that listens on all addresses of its host. */
export function listens(service: string, port: number, hostAddresses: string[], more: InstanceValues = {}): InstanceValues {
  return {
    service,
    protocol: "tcp",
    address: "0.0.0.0",
    port,
    pid: port,
    start_ticks: 1,
    netns: 1,
    addresses: JSON.stringify(hostAddresses),
    build: `${service}-build-1`,
    ...more,
  };
}

/** A service that only makes calls. */
export function calls(service: string, hostAddresses: string[], more: InstanceValues = {}): InstanceValues {
  return {
    service,
    method: "connection_tracking",
    pid: 77,
    start_ticks: 1,
    netns: 1,
    addresses: JSON.stringify(hostAddresses),
    build: `${service}-build-1`,
    ...more,
  };
}

export function edgeText(edge: EdgeFact): string {
  const end = ({ kind, name }: EdgeFact["client"]): string => (kind === "service" ? name : `${kind}(${name})`);
  const protocol = edge.protocol === "tcp" ? "" : `/${edge.protocol}`;
  return `${end(edge.client)} -> ${end(edge.server)}:${edge.serverPort}${protocol} ${edge.class} ${edge.confidence}`;
}
