/**
 * Rows per second from an agent's store, through codec, tunnel and AgentService, into the colony's store, committed. The agent is a separate
 * process; the colony is this one, with the product's own port, scheduler and store. The baseline appends the same rows to a DuckDB file,
 * with plain appender code.
 */

import { mkdirSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { DuckDBInstance, DuckDBTimestampValue } from "@duckdb/node-api";
import { addAgentService } from "../src/agent/link/agent-service.ts";
import { systemClock } from "../src/base/clock.ts";
import { silentLogger } from "../src/base/log.ts";
import { ResourceStack } from "../src/base/resource-stack.ts";
import { createColonyMetrics } from "../src/colony/core/colony-metrics.ts";
import { Ingest } from "../src/colony/pull/ingest.ts";
import { PullScheduler } from "../src/colony/pull/pull-scheduler.ts";
import { openAgentStore } from "../src/store/agent/index.ts";
import { type ColonyStore, openColonyStore } from "../src/store/colony/index.ts";
import { type Engine, openEngine } from "../src/store/engine/index.ts";
import { hostProcess, signals } from "../src/store/signals/index.ts";
import { createAuthority, dialTunnel, generateKey, type Identity, startColonyServer, type Tunnel } from "../src/transport/index.ts";
import { type HostProcessRow, processRow } from "./lib/host-samples.ts";
import { figureOf, isSmall, report } from "./lib/report.ts";
import { ratioOf } from "./lib/spread.ts";
import { role, roleArguments, serveParent, Worker } from "./lib/worker.ts";

const rows = isSmall ? 40_000 : 200_000;
const rounds = isSmall ? 3 : 9;
const mebibyte = 1024 ** 2;
const agentId = "bench-agent";
const colonyId = "bench-dev-000001";

/** Rows of one sample share a timestamp, as real ones do. */
function benchRow(index: number): HostProcessRow {
  const sample = Math.floor(index / 24);
  return processRow(7, index, { at: 1_760_000_000_000_000 + sample * 15_000_000, mono_ms: 5_000 + sample * 15_000 });
}

const allRows = (): HostProcessRow[] => Array.from({ length: rows }, (_, index) => benchRow(index));

if (role === "agent") await runAgent(roleArguments[0] ?? "");
else if (role === "append") await runAppend(roleArguments[0] ?? "");
else await measure();

interface Dial {
  endpoint: string;
  identity: Identity;
}

/** Fills its store and reports how long that took; then dials the given tunnel and serves the store over it. */
async function runAgent(directory: string): Promise<void> {
  await using stack = new ResourceStack();
  const engine = stack.use(
    await openEngine({ dataDirectories: [directory], memoryLimitBytes: 64 * mebibyte, threads: 1, log: silentLogger }),
  );
  const store = stack.use(
    await openAgentStore(engine, {
      file: join(directory, "agent.duckdb"),
      signals,
      maxBytes: 4_096 * mebibyte,
      clock: systemClock,
      log: silentLogger,
    }),
  );
  const source = allRows();
  const startMs = performance.now();
  for (let start = 0; start < rows; start += 2_000) await store.append(hostProcess, source.slice(start, start + 2_000));
  const fillMs = performance.now() - startMs;
  const stopped = new AbortController();
  await serveParent<Dial | "fill-time">(async (request) => {
    if (request === "fill-time") return { fillMs, epoch: store.epoch };
    await dialTunnel({
      ...request,
      colonyId,
      routes: (router) => addAgentService(router, { agentId, sessionId: "bench", store, clock: systemClock }),
      signal: stopped.signal,
      log: silentLogger,
    });
    return undefined;
  });
  stopped.abort();
}

/** The baseline: JavaScript rows appended value by value to a fresh file; the time until the appender is closed, which commits. */
async function runAppend(directory: string): Promise<void> {
  const source = allRows();
  let round = 0;
  await serveParent(async () => {
    const file = join(directory, `append-${++round}.duckdb`);
    const instance = await DuckDBInstance.create(file);
    const connection = await instance.connect();
    await connection.run(`CREATE TABLE host_process ("time" TIMESTAMP, mono_ms DOUBLE, pid BIGINT, start_ticks BIGINT, name VARCHAR, exe VARCHAR,
      user_id BIGINT, cgroup VARCHAR, state VARCHAR, cpu_cores DOUBLE, rss_bytes BIGINT, threads BIGINT, open_files BIGINT, major_faults_per_s DOUBLE)`);
    const startMs = performance.now();
    const appender = await connection.createAppender("host_process");
    for (const row of source) {
      appender.appendTimestamp(new DuckDBTimestampValue(BigInt(row.at)));
      appender.appendDouble(row.mono_ms);
      appender.appendBigInt(BigInt(row.pid));
      appender.appendBigInt(BigInt(row.start_ticks));
      appender.appendVarchar(row.name);
      if (row.exe === null) appender.appendNull();
      else appender.appendVarchar(row.exe);
      appender.appendBigInt(BigInt(row.user_id));
      if (row.cgroup === null) appender.appendNull();
      else appender.appendVarchar(row.cgroup);
      appender.appendVarchar(row.state);
      appender.appendDouble(row.cpu_cores);
      appender.appendBigInt(BigInt(row.rss_bytes));
      appender.appendBigInt(BigInt(row.threads));
      if (row.open_files === null) appender.appendNull();
      else appender.appendBigInt(BigInt(row.open_files));
      appender.appendDouble(row.major_faults_per_s);
      appender.endRow();
    }
    appender.closeSync();
    const tookMs = performance.now() - startMs;
    connection.closeSync();
    instance.closeSync();
    rmSync(file, { force: true });
    return tookMs;
  });
}

async function measure(): Promise<void> {
  await using stack = new ResourceStack();
  const directory = mkdtempSync(join(tmpdir(), "coral-bench-"));
  stack.defer(async () => rmSync(directory, { recursive: true, force: true }));
  for (const name of ["agent", "append", "colony"]) mkdirSync(join(directory, name));
  const append = stack.use(new Worker("append", [join(directory, "append")]));
  const agent = stack.use(new Worker("agent", [join(directory, "agent")]));
  const { fillMs, epoch } = await agent.ask<{ fillMs: number; epoch: string }>("fill-time");
  const engine = stack.use(
    await openEngine({
      dataDirectories: [join(directory, "colony")],
      memoryLimitBytes: 512 * mebibyte,
      threads: 2,
      log: silentLogger,
    }),
  );
  const tunnel = await openTunnelFrom(agent, join(directory, "ca"), stack);
  const pullMs: number[] = [];
  const appendMs: number[] = [];
  // The first run of each is a warm-up.
  for (let round = 0; round <= rounds; round++) {
    const order = round % 2 === 0 ? ["append", "pull"] : ["pull", "append"];
    for (const what of order) {
      if (what === "append") appendMs.push(await append.ask<number>("append"));
      else pullMs.push(await pullOnce(tunnel, epoch, engine, join(directory, "colony", `${round}.duckdb`)));
    }
  }
  const rate = (times: readonly number[]): number[] => times.slice(1).map((ms) => (rows / ms) * 1_000);
  report({
    name: "pull",
    sizes: { rows, rounds },
    figures: [
      figureOf("pull, against plain append", "×", ratioOf(rate(pullMs), rate(appendMs)), { kind: "at-least", value: 0.5 }),
      figureOf("pull: agent's store to colony's store", "rows/s", rate(pullMs)),
      figureOf("plain append: @duckdb/node-api to a file", "rows/s", rate(appendMs)),
      figureOf("agent's own append, 2,000 rows a commit", "rows/s", [(rows / fillMs) * 1_000]),
    ],
  });
}

/** A real port, a certificate from a real CA, and the agent dialling in from its process. */
async function openTunnelFrom(agent: Worker, caDirectory: string, stack: ResourceStack): Promise<Tunnel> {
  const authority = await createAuthority(caDirectory, colonyId);
  const { certPem, keyPem } = await authority.issueColony({ ttlMs: 3_600_000 });
  let accept: (tunnel: Tunnel) => void = () => undefined;
  const opened = new Promise<Tunnel>((resolve) => {
    accept = resolve;
  });
  const server = stack.use(
    await startColonyServer({
      port: 0,
      colonyId,
      tls: () => ({ certPem, keyPem, caPem: authority.caPem }),
      routes: () => undefined,
      http: (_request, response) => void response.writeHead(404).end(),
      onTunnel: (tunnel) => accept(tunnel),
      isRevoked: () => false,
      log: silentLogger,
    }),
  );
  const key = generateKey();
  const nowMs = Date.now();
  const issued = await authority.issueAgent({ agentId, publicKeyDer: key.publicKeyDer, ttlMs: 3_600_000, nowMs });
  const identity: Identity = {
    agentId,
    colonyId,
    keyPem: key.keyPem,
    certPem: issued.certPem,
    caPem: authority.caPem,
    notBeforeMs: nowMs,
    notAfterMs: issued.notAfterMs,
    renewAtMs: issued.notAfterMs,
  };
  await agent.ask({ endpoint: `127.0.0.1:${server.port}`, identity } satisfies Dial);
  return opened;
}

/** Pulls everything into a fresh store; the time until the last row is committed. */
async function pullOnce(tunnel: Tunnel, epoch: string, engine: Engine, file: string): Promise<number> {
  const store = await openColonyStore(engine, {
    file,
    signals,
    maxBytes: 4_096 * mebibyte,
    clock: systemClock,
    log: silentLogger,
  });
  const done = new AbortController();
  let stored = 0;
  const scheduler = new PullScheduler({
    store,
    ingest: new Ingest({
      applyPulls: async (pulls) => {
        const outcomes = await store.applyPulls(pulls);
        for (const { storedRows } of outcomes) stored += storedRows;
        if (stored >= rows) done.abort();
        return outcomes;
      },
    }),
    signals: signals.map(({ name }) => name),
    settings: () => ({ intervalMs: 5_000, concurrency: 32, timeoutMs: 10_000, maxBatchBytes: 4 * mebibyte }),
    clock: systemClock,
    log: silentLogger,
    metrics: createColonyMetrics({ agentsByHealth: () => ({}), storeBytes: () => Promise.resolve(0) }),
    onContact: () => undefined,
  });
  const startMs = performance.now();
  const running = scheduler.run(tunnel, epoch, done.signal);
  await new Promise((resolve) => done.signal.addEventListener("abort", resolve, { once: true }));
  const tookMs = performance.now() - startMs;
  await running;
  await check(store);
  await store.close();
  rmSync(file, { force: true });
  return tookMs;
}

/** Checks that every row is stored once, with its values. */
async function check(store: ColonyStore): Promise<void> {
  const [found] = await store.query(
    "SELECT count(*) AS rows, count(DISTINCT seq) AS seqs, sum(pid) AS pids, sum(cpu_cores) AS cores, count(exe) AS exes FROM host_process",
  );
  const wanted = { rows, seqs: rows, pids: 0, cores: 0, exes: 0 };
  for (let index = 0; index < rows; index++) {
    const row = benchRow(index);
    wanted.pids += row.pid;
    wanted.cores += row.cpu_cores;
    wanted.exes += row.exe === null ? 0 : 1;
  }
  for (const [key, value] of Object.entries(wanted)) {
    const difference = Math.abs(Number(found?.[key]) - value);
    // DuckDB sums floats in a different order.
    if (!(difference <= Math.abs(value) * 1e-9)) throw new Error(`The colony has ${key} = ${String(found?.[key])}, not ${value}`);
  }
}
