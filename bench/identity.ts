/**
 * Service identities: 500 services on 10 hosts over a simulated time with renames, equal names, reused pids, restarts, scaling and rolling
 * deployments into new release directories. Ids are derived from simulated processes, rows go through a colony's store, discovery and deployments, and
 * the results are compared with the truth. A wrong result throws. A tenth of the services with CORAL_BENCH_SMALL=1.
 */

import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Clock } from "../src/base/clock.ts";
import { silentLogger } from "../src/base/log.ts";
import { DeploymentWatch } from "../src/colony/deployments/deployment-watch.ts";
import { ServiceNames } from "../src/colony/identity/service-names.ts";
import { type ColonyStore, openColonyStore } from "../src/store/colony/index.ts";
import { batchFromRows } from "../src/store/columns/column-batch.ts";
import { encodeBatch } from "../src/store/columns/column-codec.ts";
import { DiscoveryCycle, defaultDiscoverySettings, readServiceNames } from "../src/store/discovery/index.ts";
import { openEngine } from "../src/store/engine/index.ts";
import { queryEdges, queryServices } from "../src/store/queries/index.ts";
import { type Columns, connection, derivedSignals, type RowOf, type Signal, serviceInstance, signals } from "../src/store/signals/index.ts";
import type { AgentPull } from "../src/store/tables/index.ts";
import { figureOf, isSmall, report, single } from "./lib/report.ts";
import { buildText, originOf, type SimulatedProcess, seededRandom, type TrueService, trueServices } from "./lib/service-world.ts";

const hosts = 10;
const count = isSmall ? 50 : 500;
const rounds = isSmall ? 20 : 60;
/** Simulated time between two scans. */
const scanMs = 30_000;
const random = seededRandom(20_260_118);
const pick = <T>(list: readonly T[]): T => list[Math.floor(random() * list.length)] as T;

let wallMs = Date.UTC(2026, 0, 18, 9);
const clock: Clock = { wallMs: () => wallMs, monotonicMs: () => wallMs };

const services = trueServices(count, random);
const processes: SimulatedProcess[] = [];
/** Pids of exited processes by host; new processes reuse them first, as after a wrap-around of the kernel's counter. */
const freePids = Array.from({ length: hosts }, () => [] as number[]);
const nextPid = Array.from({ length: hosts }, () => 1_000);
let ticks = 1_000;

const truth = { deployments: 0, renames: 0, restarts: 0, reusedPids: 0, scaled: 0 };

function start(service: TrueService, host: number): void {
  const reused = freePids[host]?.shift();
  if (reused !== undefined) truth.reusedPids++;
  const pid = reused ?? (nextPid[host] = (nextPid[host] ?? 0) + 1);
  processes.push({ service, host, pid, startTicks: ++ticks, startedMs: wallMs - 2_000, build: service.build });
}

function end(process: SimulatedProcess): void {
  processes.splice(processes.indexOf(process), 1);
  freePids[process.host]?.push(process.pid);
}

const processesOf = (service: TrueService): SimulatedProcess[] => processes.filter((process) => process.service === service);
for (const service of services) for (let copy = 0; copy <= service.key % 3; copy++) start(service, (service.key + copy * 3) % hosts);

/** Hosts of a rolling deployment that still run the old build. */
const rolling = new Map<TrueService, SimulatedProcess[]>();

/** What happens between two scans. */
function change(round: number): void {
  for (const [service, old] of rolling) {
    const process = old.shift();
    if (process && processes.includes(process)) {
      end(process);
      start(service, process.host);
    }
    if (old.length === 0) rolling.delete(service);
  }
  if (round < 4) return;
  const calm = services.filter((service) => !rolling.has(service));
  for (let index = 0; index < count / 100; index++) {
    const restarted = pick(processesOf(pick(calm)));
    end(restarted);
    start(restarted.service, restarted.host);
    truth.restarts++;
    const scaled = pick(calm);
    const copies = processesOf(scaled);
    if (copies.length > 1 && random() < 0.5) end(pick(copies));
    else start(scaled, pick([...Array(hosts).keys()].filter((host) => !copies.some((copy) => copy.host === host))));
    truth.scaled++;
  }
  if (round % 2 === 0) {
    const renamed = pick(services);
    renamed.givenName = `given-${round}`;
    truth.renames++;
  }
  // In containers the program path stays and the build changes with the image. Infrastructure and units are updated in place.
  const deployed = pick(calm.filter((service) => processesOf(service).every(({ build }) => build === service.build)));
  if (round < rounds - 8) {
    deployed.build++;
    rolling.set(deployed, processesOf(deployed));
    truth.deployments++;
  }
}

const address = (host: number): string => `10.0.0.${host + 1}`;

function instanceRow(process: SimulatedProcess): RowOf<typeof serviceInstance.columns> {
  const { service, host, pid, startTicks, startedMs, build } = process;
  const origin = originOf(process);
  const facts = service.facts(build);
  return {
    at: wallMs * 1_000,
    mono_ms: wallMs,
    service: origin.id,
    name: service.givenName ?? service.name,
    origin: origin.text,
    qualifiers: JSON.stringify(origin.qualifiers),
    aliases: JSON.stringify(service.key % 7 === 0 ? [`host-${service.key}.example.com`] : []),
    named_by: service.givenName === null ? "pattern" : "manual",
    confidence: service.givenName === null ? 0.8 : 1,
    method: "listening_socket",
    protocol: "tcp",
    address: "0.0.0.0",
    port: service.port,
    pid,
    start_ticks: startTicks,
    started: startedMs * 1_000,
    exe: facts.exe ?? null,
    build: buildText(service, build),
    build_kind: "build-id",
    command_line: (facts.arguments ?? []).join(" "),
    environment: null,
    user_id: 1_000,
    user_name: "app",
    cgroup: null,
    container_id: null,
    container_name: null,
    unit: null,
    netns: 1,
    addresses: JSON.stringify([address(host)]),
    managed: service.givenName !== null,
    health: null,
    health_detail: null,
  };
}

/** Each process calls one process of every callee once per scan; each end is reported by its own agent. */
function connectionRows(round: number): { host: number; row: RowOf<typeof connection.columns> }[] {
  return processes.flatMap((from, at) =>
    from.service.callees.flatMap((callee, nth) => {
      const target = services[callee];
      const to = target && processesOf(target)[0];
      if (!to) return [];
      const shared = {
        at: wallMs * 1_000,
        mono_ms: wallMs,
        netns: 1,
        attribution: "process_fd",
        protocol: "tcp",
        client_address: address(from.host),
        client_port: 20_000 + ((at * 5 + nth + round * 7_919) % 40_000),
        server_address: address(to.host),
        server_port: to.service.port,
        state: "closed",
        first_seen: (wallMs - 5_000) * 1_000,
        last_seen: (wallMs - 1_000) * 1_000,
        connections: 1,
        bytes_sent: 100,
        bytes_received: 100,
        rtt_us: 200,
        retransmits: 0,
        refused: 0,
        reset: 0,
        timed_out: 0,
      };
      const end = (process: SimulatedProcess, role: "client" | "server") => ({
        host: process.host,
        row: { ...shared, role, service: originOf(process).id, pid: process.pid, start_ticks: process.startTicks },
      });
      return [end(from, "client"), end(to, "server")];
    }),
  );
}

const nextSeq = new Map<string, number>();

function sliceOf<C extends Columns>(host: number, signal: Signal<C>, rows: RowOf<C>[]): AgentPull["slices"][number] {
  const key = `${host} ${signal.name}`;
  const firstSeq = nextSeq.get(key) ?? 1;
  const nextFree = firstSeq + rows.length;
  nextSeq.set(key, nextFree);
  if (rows.length === 0) return { signal: signal.name, oldestSeq: 1, nextSeq: nextFree };
  return { signal: signal.name, oldestSeq: 1, nextSeq: nextFree, batch: encodeBatch(batchFromRows(signal, rows), firstSeq) };
}

async function pull(colony: ColonyStore, round: number): Promise<void> {
  const ends = connectionRows(round);
  const pulls = Array.from({ length: hosts }, (_, host): AgentPull => {
    const instances = processes.filter((process) => process.host === host).map(instanceRow);
    const connections = ends.filter((end) => end.host === host).map(({ row }) => row);
    const slices = [sliceOf(host, serviceInstance, instances), sliceOf(host, connection, connections)];
    return { agentId: `agent-${host}`, epoch: "e", slices, losses: [] };
  });
  for (const outcome of await colony.applyPulls(pulls)) if (outcome.error) throw outcome.error;
}

/** Ids shared by several true services, and true services with several ids. */
function comparedIds(seen: ReadonlyMap<TrueService, ReadonlySet<string>>): { merged: number; split: number } {
  const owners = new Map<string, Set<TrueService>>();
  for (const [service, ids] of seen) for (const id of ids) owners.set(id, (owners.get(id) ?? new Set()).add(service));
  return {
    merged: [...owners.values()].filter(({ size }) => size > 1).length,
    split: [...seen.values()].filter(({ size }) => size > 1).length,
  };
}

const directory = mkdtempSync(join(tmpdir(), "coral-identity-"));
try {
  await using engine = await openEngine({ dataDirectories: [directory], memoryLimitBytes: 512 * 1024 ** 2, threads: 2, log: silentLogger });
  await using colony = await openColonyStore(engine, {
    file: join(directory, "colony.duckdb"),
    signals: [...signals, ...derivedSignals],
    maxBytes: 1024 ** 3,
    clock,
    log: silentLogger,
  });
  const cycle = new DiscoveryCycle({ store: colony, clock, settings: () => defaultDiscoverySettings });
  const deployments = new DeploymentWatch({
    store: colony,
    settings: () => ({ windowMs: 600_000, lagMs: 10_000 }),
    clock,
    log: silentLogger,
  });
  const seen = new Map<TrueService, Set<string>>();
  const cycleMs: number[] = [];
  for (let round = 0; round < rounds; round++) {
    change(round);
    for (const process of processes) seen.set(process.service, (seen.get(process.service) ?? new Set()).add(originOf(process).id));
    await pull(colony, round);
    const startedMs = performance.now();
    await cycle.run();
    cycleMs.push(performance.now() - startedMs);
    await deployments.step();
    wallMs += scanMs;
  }
  // Ends settle and are paired with a delay.
  wallMs += 100_000;
  await cycle.run();
  await deployments.step();

  const names = new ServiceNames(await readServiceNames(colony));
  const { merged, split } = comparedIds(seen);
  const places = await queryServices(colony);
  const answered = new Set(places.map(({ service }) => service));
  const missing = services.filter((service) => ![...(seen.get(service) ?? [])].every((id) => answered.has(id))).length;
  const labels = new Set([...answered].map((id) => names.labelOf(id)));
  const wrongNames = services.filter((service) => {
    const [id = ""] = seen.get(service) ?? [];
    return !names.labelOf(id).startsWith(service.givenName ?? service.name);
  }).length;

  const found = await deployments.list({ sinceMs: 86_400_000, limit: 10_000 });
  const trueDeployments = new Set(
    services.flatMap((service) =>
      Array.from({ length: service.build - 1 }, (_, at) => `${[...(seen.get(service) ?? [])][0]} ${buildText(service, at + 2)}`),
    ),
  );
  const foundKeys = found.map(({ service, build }) => `${service} ${build}`);
  const falseDeployments = foundKeys.filter((key) => !trueDeployments.has(key)).length + (foundKeys.length - new Set(foundKeys).size);
  const missedDeployments = [...trueDeployments].filter((key) => !foundKeys.includes(key)).length;

  const { edges } = await queryEdges(colony, { sinceMs: 86_400_000, nowMs: wallMs, database: colony.database.name });
  const drawn = new Set(edges.map(({ client, server }) => `${client.kind} ${client.name} > ${server.kind} ${server.name}`));
  const expected = new Set(
    services.flatMap((from) => from.callees.map((to) => `service ${idOf(from)} > service ${idOf(services[to] as TrueService)}`)),
  );
  const extraEdges = [...drawn].filter((edge) => !expected.has(edge)).length;
  const missingEdges = [...expected].filter((edge) => !drawn.has(edge)).length;
  function idOf(service: TrueService): string {
    return [...(seen.get(service) ?? [])][0] ?? "";
  }

  const none = { kind: "at-most", value: 0 } as const;
  report({
    name: "identity",
    sizes: { services: count, hosts, rounds, processes: processes.length, edges: expected.size, ...truth },
    figures: [
      figureOf("ids that stand for several services", "rows", single(merged), none),
      figureOf("services with several ids", "rows", single(split), none),
      figureOf("services missing from the registry", "rows", single(missing), none),
      figureOf("labels shared by several services", "rows", single(answered.size - labels.size), none),
      figureOf("services under another name", "rows", single(wrongNames), none),
      figureOf("false or repeated deployments", "rows", single(falseDeployments), none),
      figureOf("missed deployments", "rows", single(missedDeployments), none),
      figureOf("edges that are not true", "rows", single(extraEdges), none),
      figureOf("true edges that are missing", "rows", single(missingEdges), none),
      figureOf("discovery cycle", "ms", cycleMs),
    ],
  });
} finally {
  rmSync(directory, { recursive: true });
}
