/**
 * CPU cost of discovering every service and connection of a busy host, against `ss -tanp`, which lists the same sockets with their processes
 * and keeps no state. A scan includes everything that the agent does for its rows: sockets, owners, facts, names, rows.
 */

import { spawnSync } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, rmSync } from "node:fs";
import { connect, createServer, type Server, type Socket } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { createSocketDumper } from "../src/agent/connections/socket-dumper.ts";
import { createDiscoveryCollector, type DiscoveryCollector } from "../src/agent/discovery/discovery-collector.ts";
import { ServiceIdentities } from "../src/agent/naming/service-identities.ts";
import { systemClock } from "../src/base/clock.ts";
import { silentLogger } from "../src/base/log.ts";
import { loadAgentConfig } from "../src/config/index.ts";
import { createHostReader } from "../src/host/index.ts";
import { openAgentStore } from "../src/store/agent/index.ts";
import { openEngine } from "../src/store/engine/index.ts";
import { connection, event, serviceInstance, signals } from "../src/store/signals/index.ts";
import { type Figure, figureOf, isSmall, report, single } from "./lib/report.ts";
import { SocketWorld, type WorldSizes } from "./lib/socket-world.ts";
import { ratioOf } from "./lib/spread.ts";

const sizes: WorldSizes = isSmall
  ? { processes: 50, sockets: 500, descriptors: 2_500 }
  : { processes: 500, sockets: 5_000, descriptors: 25_000 };
const rounds = isSmall ? 3 : 15;
/** Warm-up rounds for V8, as the agent runs for days. The first scan of a process is measured separately. */
const warmUpRounds = isSmall ? 2 : 8;
/** Connections that are opened between two scans. */
const freshConnections = 100;

const { config } = await loadAgentConfig({ home: "/nonexistent", env: {} });
const periodMs = isSmall ? 2_000 : config.serviceDiscovery.scanIntervalMs;
const periods = isSmall ? 2 : 5;

function createCollector(): DiscoveryCollector {
  const reader = createHostReader();
  return createDiscoveryCollector({
    scanner: reader.discovery({ dumper: createSocketDumper(() => "auto") }),
    config: () => config.serviceDiscovery,
    identities: new ServiceIdentities("bench"),
    managed: { byPort: () => undefined, list: () => [], healthOf: () => undefined },
    ticksPerS: reader.units.ticksPerS,
    clock: systemClock,
    log: silentLogger,
  });
}

/** CPU time of this process with all threads, and the scan's result. */
async function costOf(collector: DiscoveryCollector): Promise<{ cpuMs: number; instances: number; connections: number }> {
  const before = process.cpuUsage();
  const rows = await collector.sample(undefined, true);
  const { user, system } = process.cpuUsage(before);
  return { cpuMs: (user + system) / 1_000, instances: rows.instances.length, connections: rows.connections.length };
}

/** Uses the shell's clock, which has milliseconds; the kernel counts children's time in hundredths of a second. */
function costOfSs(): number {
  const { stderr, status } = spawnSync("bash", ["-c", 'TIMEFORMAT="%U %S"; time ss -tanp > /dev/null'], { encoding: "utf8" });
  const [user, system] = stderr.trim().split(" ").map(Number);
  if (status !== 0 || user === undefined || system === undefined) throw new Error(`Cannot measure ss: ${stderr}`);
  return (user + system) * 1_000;
}

/** Accepted connections of this process with itself, opened between two scans. */
async function openConnections(count: number, server: Server): Promise<Socket[]> {
  const { port } = server.address() as { port: number };
  const accepted = new Promise<void>((resolve) => {
    let left = count;
    const countDown = (): void => {
      if (--left > 0) return;
      server.off("connection", countDown);
      resolve();
    };
    server.on("connection", countDown);
  });
  const sockets = Array.from({ length: count }, () => connect(port, "127.0.0.1"));
  await Promise.all([accepted, ...sockets.map((socket) => once(socket, "connect"))]);
  return sockets;
}

async function measureScans(): Promise<{ figures: Figure[]; notes: string[] }> {
  const server = createServer().listen(0, "127.0.0.1");
  await once(server, "listening");
  const cold = await costOf(createCollector());
  if (cold.connections < sizes.sockets - sizes.processes) throw new Error(`Only ${cold.connections} connections found`);
  const [ss, full, idle, churned]: [number[], number[], number[], number[]] = [[], [], [], []];
  for (let round = -warmUpRounds; round < rounds; round++) {
    const ssMs = costOfSs();
    const collector = createCollector();
    const first = await costOf(collector);
    await costOf(collector);
    const unchanged = await costOf(collector);
    const sockets = await openConnections(freshConnections, server);
    const changed = await costOf(collector);
    if (changed.connections < 2 * freshConnections) throw new Error(`Only ${changed.connections} new connection ends found`);
    for (const socket of sockets) socket.destroy();
    if (round < 0) continue;
    ss.push(ssMs);
    full.push(first.cpuMs);
    idle.push(unchanged.cpuMs);
    churned.push(changed.cpuMs);
  }
  server.close();
  return {
    figures: [
      figureOf("ss -tanp: CPU", "ms", ss),
      figureOf("full scan: CPU", "ms", full),
      figureOf("full scan to ss", "×", ratioOf(full, ss), { kind: "at-most", value: 1 }),
      figureOf("incremental scan: CPU", "ms", idle),
      figureOf("incremental scan to ss", "×", ratioOf(idle, ss), { kind: "at-most", value: 0.3 }),
      figureOf(`incremental scan with ${freshConnections} new connections to ss`, "×", ratioOf(churned, ss), {
        kind: "at-most",
        value: 0.3,
      }),
      figureOf("first scan of a new process: CPU", "ms", single(cold.cpuMs)),
    ],
    notes: [`${cold.instances} instances and ${cold.connections} connection ends found`],
  };
}

/** CPU share of discovery at its default interval: scan, writes to a real store, and the read of a pull. */
async function measureAverage(): Promise<Figure> {
  const directory = mkdtempSync(join(tmpdir(), "coral-bench-"));
  const engine = await openEngine({
    dataDirectories: [directory],
    memoryLimitBytes: config.store.memoryBytes,
    threads: 1,
    log: silentLogger,
  });
  const options = {
    file: join(directory, "agent.duckdb"),
    signals,
    maxBytes: config.store.maxSizeBytes,
    clock: systemClock,
    log: silentLogger,
  };
  const store = await openAgentStore(engine, options);
  const collector = createCollector();
  const period = async (delayMs: number): Promise<number> => {
    const before = process.cpuUsage();
    const rows = await collector.sample();
    await Promise.all([
      store.append(serviceInstance, rows.instances),
      store.append(connection, rows.connections),
      store.append(event, rows.events),
    ]);
    await collector.hashBuilds();
    const { nextSeq } = store.heads().get(serviceInstance.name) ?? { nextSeq: 1 };
    await store.readAfter(serviceInstance.name, nextSeq - rows.instances.length - 1, { maxBytes: 4 * 1024 ** 2, maxRows: 100_000 });
    await sleep(delayMs);
    const { user, system } = process.cpuUsage(before);
    return (user + system) / 1_000 / (delayMs / 100);
  };
  try {
    // In the first scan everything is new, and processes that just started are read twice.
    for (let scan = 0; scan < 2; scan++) await period(100);
    const shares: number[] = [];
    for (let scan = 0; scan < periods; scan++) shares.push(await period(periodMs));
    return figureOf("discovery at its default interval, of one core", "%", shares, { kind: "below", value: 0.5 });
  } finally {
    await store.close();
    await engine.close();
    rmSync(directory, { recursive: true, force: true });
  }
}

await using world = await SocketWorld.create(sizes);
const { figures, notes } = await measureScans();
report({ name: "discovery-scan", sizes: { ...sizes, rounds }, figures: [...figures, await measureAverage()], notes });
await world[Symbol.asyncDispose]();
