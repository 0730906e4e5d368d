/**
 * A colony with a thousand agents, 200 connections each, 5,000 services in all: how long it takes to store, correlate and
 * classify their reports, for the first scan and for later ones, and how long a query of the whole topology takes: the tool alone, and
 * `coral network topology` against a colony on the same file.
 */

import { spawnSync } from "node:child_process";
import { readdirSync } from "node:fs";
import { join } from "node:path";
import type { Clock } from "../src/base/clock.ts";
import { silentLogger } from "../src/base/log.ts";
import type { EdgesRequest } from "../src/model/edges.ts";
import { type ColonyStore, openColonyStore } from "../src/store/colony/index.ts";
import { batchFromRows } from "../src/store/columns/column-batch.ts";
import { encodeBatch } from "../src/store/columns/column-codec.ts";
import { DiscoveryCycle, defaultDiscoverySettings } from "../src/store/discovery/index.ts";
import { openEngine } from "../src/store/engine/index.ts";
import { queryEdgeRed, queryEdges } from "../src/store/queries/index.ts";
import { type Columns, connection, type RowOf, type Signal, serviceInstance, signals } from "../src/store/signals/index.ts";
import { type AgentPull } from "../src/store/tables/index.ts";
import { type ColonyBackend, colonyTools, findTool, type Topology } from "../src/tools/index.ts";
import { CoralHome, coralFile } from "./lib/coral-process.ts";
import { figureOf, isSmall, report, single } from "./lib/report.ts";

const agents = isSmall ? 100 : 1_000;
const servicesPerAgent = 5;
/**
 * The 200 connection ends of an agent: calls to other agents, as many calls from them, and external calls. Each of its services calls four
 * others and two external addresses, with four connections each.
 */
const callsOut = 80;
const callsOutside = 40;
const connectionsPerPeer = 4;
const scans = isSmall ? 2 : 6;
/** Agents whose rows are written in one transaction. */
const groupSize = 32;
/** Time between two scans, as by default. */
const intervalMs = 30_000;

type InstanceRow = RowOf<typeof serviceInstance.columns>;
type ConnectionRow = RowOf<typeof connection.columns>;

/** Slightly in the past: the colony started on the same file uses the wall clock. */
let wallMs = Date.now() - (scans + 1) * intervalMs;
const clock: Clock = { wallMs: () => wallMs, monotonicMs: () => wallMs };

const addressOf = (agent: number): string => `10.${agent >> 8}.${agent & 255}.1`;
const serviceOf = (agent: number, index: number): string => `service-${agent * servicesPerAgent + index}`;

function instancesOf(agent: number): InstanceRow[] {
  return Array.from({ length: servicesPerAgent }, (_, index) => ({
    at: wallMs * 1_000,
    mono_ms: wallMs,
    service: serviceOf(agent, index),
    name: null,
    origin: null,
    qualifiers: null,
    aliases: null,
    named_by: "systemd-unit",
    confidence: 0.85,
    method: "listening_socket",
    protocol: "tcp",
    address: "0.0.0.0",
    port: 8_000 + index,
    pid: 1_000 + index,
    start_ticks: 12_345,
    started: Date.UTC(2025, 0, 1) * 1_000,
    exe: `/usr/bin/service-${index}`,
    build: `${agent}`.padStart(40, "a"),
    build_kind: "build-id",
    command_line: `/usr/bin/service-${index} --port ${8_000 + index} --config /etc/service.yaml`,
    environment: "{}",
    user_id: 1_000,
    user_name: "app",
    cgroup: `/system.slice/service-${index}.service`,
    container_id: null,
    container_name: null,
    unit: `service-${index}.service`,
    netns: 4_026_531_840,
    addresses: JSON.stringify([addressOf(agent), "127.0.0.1"]),
    managed: false,
    health: null,
    health_detail: null,
  }));
}

interface Call {
  agent: number;
  peer: number;
  index: number;
  /** Index among the service's peers. */
  nth: number;
  /** Incremented for each new connection that replaces it. */
  round: number;
  firstMs: number;
}

/** Calls per agent; the peers report their ends of them. */
const calls: Call[] = Array.from({ length: agents * (callsOut + callsOutside) }, (_, at) => {
  const agent = Math.floor(at / (callsOut + callsOutside));
  const index = at % (callsOut + callsOutside);
  const nth = Math.floor(index / (servicesPerAgent * connectionsPerPeer));
  return { agent, peer: index < callsOut ? (agent + 1 + nth * 7) % agents : -1, index, nth, round: 0, firstMs: wallMs };
});

const portOf = ({ index, round }: Call): number => 20_000 + ((index * 50 + round) % 40_000);

function endsOf(call: Call, state: "open" | "closed"): { agent: number; row: ConnectionRow }[] {
  const { agent, peer, index } = call;
  const server = peer < 0 ? `203.0.${(agent * 8 + call.nth) >> 8}.${(agent * 8 + call.nth) & 255}` : addressOf(peer);
  const shared = {
    at: wallMs * 1_000,
    mono_ms: wallMs,
    pid: 1_000 + (index % servicesPerAgent),
    start_ticks: 12_345,
    netns: 4_026_531_840,
    attribution: "process_fd",
    protocol: "tcp",
    client_address: addressOf(agent),
    client_port: portOf(call),
    server_address: server,
    server_port: peer < 0 ? 443 : 8_000 + (index % servicesPerAgent),
    state,
    first_seen: call.firstMs * 1_000,
    last_seen: wallMs * 1_000,
    connections: 1,
    bytes_sent: 1_000,
    bytes_received: 50_000,
    rtt_us: 400,
    retransmits: 0,
    refused: null,
    reset: null,
    timed_out: null,
  };
  const service = (of: number): string => serviceOf(of, index % servicesPerAgent);
  const ends = [{ agent, row: { ...shared, role: "client", service: service(agent) } }];
  if (peer >= 0) ends.push({ agent: peer, row: { ...shared, role: "server", service: service(peer) } });
  return ends;
}

const nextSeq = new Map<string, number>();

function sliceOf<C extends Columns>(agent: number, signal: Signal<C>, rows: RowOf<C>[]): AgentPull["slices"][number] {
  const key = `${agent} ${signal.name}`;
  const firstSeq = nextSeq.get(key) ?? 1;
  nextSeq.set(key, firstSeq + rows.length);
  const nextFree = firstSeq + rows.length;
  if (rows.length === 0) return { signal: signal.name, oldestSeq: 1, nextSeq: nextFree };
  return { signal: signal.name, oldestSeq: 1, nextSeq: nextFree, batch: encodeBatch(batchFromRows(signal, rows), firstSeq) };
}

/** Reports of every agent: all of its instances and the given connection ends. */
function pullsOf(ends: { agent: number; row: ConnectionRow }[]): AgentPull[] {
  const byAgent = new Map<number, ConnectionRow[]>();
  for (const { agent, row } of ends) byAgent.set(agent, [...(byAgent.get(agent) ?? []), row]);
  return Array.from({ length: agents }, (_, agent) => ({
    agentId: `agent-${agent}`,
    epoch: "e",
    slices: [sliceOf(agent, serviceInstance, instancesOf(agent)), sliceOf(agent, connection, byAgent.get(agent) ?? [])],
    losses: [],
  }));
}

async function store(colony: ColonyStore, pulls: AgentPull[]): Promise<number> {
  const startedMs = performance.now();
  for (let start = 0; start < pulls.length; start += groupSize) {
    for (const outcome of await colony.applyPulls(pulls.slice(start, start + groupSize))) if (outcome.error) throw outcome.error;
  }
  return performance.now() - startedMs;
}

async function timed(work: () => Promise<unknown>): Promise<number> {
  const startedMs = performance.now();
  await work();
  return performance.now() - startedMs;
}

/** Time of the whole command, with query and table. */
async function askColony(home: CoralHome): Promise<number[]> {
  await using daemon = await home.start(["colony", "start", "--port", "0"], () => home.run("status"));
  const askMs: number[] = [];
  for (let round = 0; round < 5; round++) {
    const startedMs = performance.now();
    const { status } = spawnSync(coralFile, ["network", "topology"], { env: home.env, stdio: "ignore" });
    if (status !== 0) throw new Error(`coral network topology exited with ${status}`);
    askMs.push(performance.now() - startedMs);
  }
  daemon.check();
  return askMs;
}

using home = new CoralHome();
home.run("init", "bench");
const [colonyId = ""] = readdirSync(join(home.path, "colonies"));
const directory = join(home.path, "colonies", colonyId, "data");
const figures = await fill();
const cliMs = await askColony(home);
report({
  name: "discovery-colony",
  sizes: figures.sizes,
  figures: [...figures.figures, figureOf("coral network topology, all services", "ms", cliMs, { kind: "below", value: 1_000 })],
});

async function fill() {
  await using engine = await openEngine({ dataDirectories: [directory], memoryLimitBytes: 512 * 1024 ** 2, threads: 2, log: silentLogger });
  await using colony = await openColonyStore(engine, {
    file: join(directory, "colony.duckdb"),
    signals,
    maxBytes: 4 * 1024 ** 3,
    clock,
    log: silentLogger,
  });
  const cycle = new DiscoveryCycle({ store: colony, clock, settings: () => defaultDiscoverySettings });

  const first = pullsOf(calls.flatMap((call) => endsOf(call, "open")));
  const firstStoreMs = await store(colony, first);
  const firstCycleMs = await timed(() => cycle.run());

  const storeMs: number[] = [];
  const cycleMs: number[] = [];
  for (let scan = 1; scan <= scans; scan++) {
    wallMs += intervalMs;
    // A tenth of the connections are replaced; another tenth is reported again, as every five minutes.
    const ends = calls.flatMap((call, at) => {
      if ((at + scan) % 10 === 1) return endsOf(call, "open");
      if ((at + scan) % 10 !== 0) return [];
      const ended = endsOf(call, "closed");
      Object.assign(call, { round: call.round + 1, firstMs: wallMs });
      return [...ended, ...endsOf(call, "open")];
    });
    const pulls = pullsOf(ends);
    storeMs.push(await store(colony, pulls));
    cycleMs.push(await timed(() => cycle.run()));
  }
  wallMs += 5_000;
  const idleMs = await timed(() => cycle.run());

  const { edges, skippedConnections } = await queryEdges(colony, { sinceMs: 3_600_000, nowMs: wallMs, database: colony.database.name });
  const internal = edges.filter((edge) => edge.class === "INTERNAL");
  const merged = internal.filter((edge) => edge.confidence === 0.9);
  const callers = new Set(edges.map((edge) => edge.client.name));
  if (merged.length !== internal.length || skippedConnections !== 0 || callers.size !== agents * servicesPerAgent) {
    throw new Error(
      `Cannot trust this run: ${merged.length} of ${internal.length} edges merged, ${callers.size} callers, ${skippedConnections} skipped`,
    );
  }
  const open = edges.reduce((total, edge) => total + edge.openConnections, 0);
  if (open !== calls.length) throw new Error(`Cannot trust this run: ${open} of ${calls.length} connections are open`);

  const backend = {
    agents: () => Promise.resolve([]),
    losses: () => Promise.resolve([]),
    coverage: () => Promise.resolve({ unobserved: [], kept: [], nowMs: 0 }),
    edges: (request: EdgesRequest) => queryEdges(colony, { ...request, nowMs: wallMs, database: colony.database.name }),
    edgeRed: (request: EdgesRequest) => queryEdgeRed(colony, { ...request, nowMs: wallMs, database: colony.database.name }),
    spanEdges: async () => ({ edges: [], windowMs: 0, share: 1 }),
  } as unknown as ColonyBackend;
  const topology = findTool(colonyTools, "coral_get_topology", "read");
  const askMs: number[] = [];
  let nodes = 0;
  for (let round = 0; round < 5; round++) {
    askMs.push(
      await timed(async () => {
        const answer = (await topology.call(backend, { limit: 10_000 }, { signal: new AbortController().signal })) as unknown as Topology;
        nodes = answer.nodes.length;
        JSON.stringify(answer);
      }),
    );
  }
  return {
    sizes: { agents, services: agents * servicesPerAgent, ends: calls.length + agents * callsOut, edges: edges.length, nodes, scans },
    figures: [
      figureOf("first scan of all agents: stored", "ms", single(firstStoreMs)),
      figureOf("first scan of all agents: classified", "ms", single(firstCycleMs)),
      figureOf("first scan of all agents: both", "ms", single(firstStoreMs + firstCycleMs), { kind: "below", value: intervalMs }),
      figureOf("each later scan: stored", "ms", storeMs),
      figureOf("each later scan: classified", "ms", cycleMs),
      figureOf("nothing new", "ms", single(idleMs)),
      figureOf("coral_get_topology, all services", "ms", askMs, { kind: "below", value: 1_000 }),
    ],
  };
}
