/**
 * One real `coral colony start` with a thousand agents: each has its own id, key, certificate, epoch and sequences, joins with a token, registers,
 * holds a tunnel and takes a host sample every 15 s. Afterwards every row is checked in the colony's file.
 */

import { setMaxListeners } from "node:events";
import { readFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { systemClock } from "../src/base/clock.ts";
import { silentLogger } from "../src/base/log.ts";
import { openColonyStore } from "../src/store/colony/index.ts";
import { openEngine } from "../src/store/engine/index.ts";
import { signals } from "../src/store/signals/index.ts";
import { parseToken, type Token } from "../src/transport/index.ts";
import { type CoralDaemon, CoralHome } from "./lib/coral-process.ts";
import { coresBetween, type ProcessUsage, usageOf } from "./lib/process-usage.ts";
import { type Figure, figureOf, isSmall, report, single } from "./lib/report.ts";
import { checkedColumns, type Made, SimulatedAgent } from "./lib/simulated-agent.ts";
import { percentileOf, spreadOf } from "./lib/spread.ts";
import { role, serveParent, Worker } from "./lib/worker.ts";

const agentCount = Number(process.env["CORAL_BENCH_AGENTS"] ?? (isSmall ? 100 : 1_000));
/** Interval at which each agent makes rows. */
const sampleMs = 15_000;
const warmUpMs = isSmall ? 5_000 : 20_000;
/** Length of a measured period. */
const windowMs = 15_000;
/** Six windows are 90 s: roll-ups and retention, each once a minute, run in this time. */
const windows = isSmall ? 2 : 6;
/** Agents that connect concurrently while the fleet is set up. */
const connectsAtOnce = 16;
/** Time after the last row for pulls to complete. */
const drainMs = 12_000;
const mebibyte = 1024 ** 2;

type Order = { kind: "connect"; token: Token } | { kind: "rows" } | { kind: "stop" } | { kind: "made" };

if (role === "agents") await simulate();
else await measure();

/** Runs the simulated agents, in a child process. */
async function simulate(): Promise<void> {
  const agents = Array.from({ length: agentCount }, (_, number) => new SimulatedAgent(number));
  const stopped = new AbortController();
  // Every agent adds a listener to it.
  setMaxListeners(0, stopped.signal);
  const lost: string[] = [];
  let rows = 0;
  let timers: NodeJS.Timeout[] = [];
  const begin = (agent: SimulatedAgent): void => {
    const sample = (): void => {
      rows += agent.sample();
    };
    // Real hosts start at random times, so samples are spread evenly, by agent number.
    const delayMs = ((Number(agent.agentId.slice(4)) * 0.618) % 1) * sampleMs;
    timers.push(
      setTimeout(() => {
        sample();
        timers.push(setInterval(sample, sampleMs));
      }, delayMs),
    );
  };
  await serveParent<Order>(async (order) => {
    switch (order.kind) {
      case "connect": {
        const waiting = [...agents];
        const connectNext = async (): Promise<void> => {
          for (let agent = waiting.pop(); agent; agent = waiting.pop()) {
            const { agentId } = agent;
            const tunnel = await agent.connect(order.token, stopped.signal);
            void tunnel.closed.then((error) => lost.push(`${agentId}: ${error.message}`));
            begin(agent);
          }
        };
        await Promise.all(Array.from({ length: connectsAtOnce }, connectNext));
        return undefined;
      }
      case "rows":
        return { rows, lost };
      case "stop":
        for (const timer of timers) clearInterval(timer);
        timers = [];
        return undefined;
      case "made":
        return Object.fromEntries(agents.map((agent) => [agent.agentId, agent.made()]));
    }
  });
  stopped.abort();
}

async function measure(): Promise<void> {
  checkFileLimit();
  using home = new CoralHome();
  home.run("init", "bench");
  let colonyCpu: ProcessUsage[];
  let simulatorCpu: ProcessUsage[];
  let peakRss: number;
  let made: Record<string, Record<string, Made>>;
  let connectMs: number;
  let spans: { fromMs: number; toMs: number };
  let rowsPerSecond: number;
  let scraped: Map<number, number>;
  let colonyId: string;
  {
    await using colony = await home.start(["colony", "start", "--port", "0"], () => home.run("colony", "status"));
    const created = JSON.parse(home.run("colony", "token", "create", "--uses", String(agentCount), "-o", "json")) as { token: string };
    const token = parseToken(created.token, "join");
    ({ colonyId } = token);
    await using simulator = new Worker("agents");
    const startMs = performance.now();
    await simulator.ask({ kind: "connect", token } satisfies Order);
    connectMs = performance.now() - startMs;
    await sleep(warmUpMs);
    const before = await simulator.ask<{ rows: number; lost: string[] }>({ kind: "rows" } satisfies Order);
    spans = { fromMs: Date.now(), toMs: 0 };
    [colonyCpu, simulatorCpu] = await watch(colony, simulator);
    spans.toMs = Date.now();
    const after = await simulator.ask<{ rows: number; lost: string[] }>({ kind: "rows" } satisfies Order);
    rowsPerSecond = ((after.rows - before.rows) / (spans.toMs - spans.fromMs)) * 1_000;
    await simulator.ask({ kind: "stop" } satisfies Order);
    await sleep(drainMs);
    scraped = await scrapeLag(token.endpoints[0] ?? "");
    const { lost } = await simulator.ask<{ lost: string[] }>({ kind: "rows" } satisfies Order);
    if (lost.length > 0) throw new Error(`${lost.length} tunnels closed, such as ${lost[0]}\n${colony.output}`);
    made = await simulator.ask({ kind: "made" } satisfies Order);
    peakRss = usageOf(colony.pid).peakRssBytes;
  }
  const stored = await readStored(home, colonyId, spans);
  const totalRows = compare(made, stored.sums);
  const pulls = Math.max(...scraped.values());
  const within = (seconds: number): string => `${(((scraped.get(seconds) ?? 0) / pulls) * 100).toFixed(2)} %`;
  report({
    name: "thousand-agents",
    sizes: { agents: agentCount, warmUpSeconds: warmUpMs / 1_000, windowSeconds: windowMs / 1_000, windows, totalRows },
    figures: [
      figureOf("pull lag, p99", "s", single(percentileOf(stored.lagsMs, 0.99) / 1_000), { kind: "below", value: 15 }),
      figureOf("pull lag, p50 and extremes", "s", {
        median: percentileOf(stored.lagsMs, 0.5) / 1_000,
        min: (stored.lagsMs[0] ?? Number.NaN) / 1_000,
        max: (stored.lagsMs.at(-1) ?? Number.NaN) / 1_000,
      }),
      figureOf("colony CPU", "cores", coresOf(colonyCpu), { kind: "below", value: 1 }),
      figureOf("colony RSS, peak since its start", "MiB", single(peakRss / mebibyte), { kind: "below", value: 500 }),
      figureOf("colony RSS", "MiB", spreadOf(colonyCpu.map(({ rssBytes }) => rssBytes / mebibyte))),
      figureOf("rows made and stored", "rows/s", single(rowsPerSecond)),
      figureOf("simulator CPU", "cores", coresOf(simulatorCpu)),
      figureOf("time to join, register and connect all", "s", single(connectMs / 1_000)),
    ] satisfies Figure[],
    notes: [
      `All ${totalRows.toLocaleString("en-US")} rows of ${agentCount} agents arrived exactly once; counts and sums agree for each agent and signal.`,
      `Lag to the end of the commit, by /metrics since the start: ${within(5)} of ${pulls} pulls within 5 s, ${within(7.5)} within 7.5 s, ${within(15)} within 15 s.`,
    ],
  });
}

/** Node raises its soft limit to the hard limit; the colony needs a descriptor for each tunnel. */
function checkFileLimit(): void {
  const [, hard = "0"] = /^Max open files\s+\S+\s+(\S+)/m.exec(readFileSync("/proc/self/limits", "utf8")) ?? [];
  const needed = agentCount * 2 + 200;
  if (hard !== "unlimited" && Number(hard) < needed) {
    throw new Error(
      `Cannot run ${agentCount} agents: this shell allows ${hard} open files and ${needed} are needed; raise it with \`ulimit -Hn\``,
    );
  }
}

async function watch(colony: CoralDaemon, simulator: Worker): Promise<[ProcessUsage[], ProcessUsage[]]> {
  const colonyUsage = [usageOf(colony.pid)];
  const simulatorUsage = [usageOf(simulator.pid)];
  for (let window = 0; window < windows; window++) {
    await sleep(windowMs);
    colony.check();
    colonyUsage.push(usageOf(colony.pid));
    simulatorUsage.push(usageOf(simulator.pid));
  }
  return [colonyUsage, simulatorUsage];
}

function coresOf(usages: readonly ProcessUsage[]): number[] {
  return usages.slice(1).map((usage, window) => coresBetween(usages[window] ?? usage, usage));
}

/** Pulls by the histogram's upper bound in seconds; infinity counts all. */
async function scrapeLag(endpoint: string): Promise<Map<number, number>> {
  const text = await (await fetch(`http://${endpoint}/metrics`)).text();
  const buckets = text.matchAll(/^coral_pull_lag_seconds_bucket\{le="([^"]+)"\} (\d+)/gm);
  return new Map([...buckets].map(([, bound, count]) => [bound === "+Inf" ? Number.POSITIVE_INFINITY : Number(bound), Number(count)]));
}

interface Stored {
  /** Keyed by `agent signal`. */
  sums: Map<string, Made & { seqs: number; firstSeq: number; lastSeq: number }>;
  /** Ascending; from the sample to the start of the transaction that stored it, for samples within the windows. */
  lagsMs: number[];
}

/** Reads the file of the stopped colony. */
async function readStored(home: CoralHome, colonyId: string, { fromMs, toMs }: { fromMs: number; toMs: number }): Promise<Stored> {
  const file = join(home.path, "colonies", colonyId, "data/colony.duckdb");
  await using engine = await openEngine({
    dataDirectories: [dirname(file)],
    memoryLimitBytes: 1_024 * mebibyte,
    threads: 2,
    log: silentLogger,
  });
  await using store = await openColonyStore(engine, { file, signals, maxBytes: 8_192 * mebibyte, clock: systemClock, log: silentLogger });
  const sums: Stored["sums"] = new Map();
  for (const [name, column] of Object.entries(checkedColumns)) {
    const rows = await store.query(
      `SELECT agent_id, count(*) AS rows, count(DISTINCT seq) AS seqs, min(seq) AS first_seq, max(seq) AS last_seq,
         sum(${column})::DOUBLE AS sum, sum(mono_ms)::DOUBLE AS mono_ms
       FROM raw."${name}" JOIN internal.sources USING (source) GROUP BY agent_id`,
    );
    for (const row of rows) {
      sums.set(`${String(row["agent_id"])} ${name}`, {
        rows: Number(row["rows"]),
        seqs: Number(row["seqs"]),
        firstSeq: Number(row["first_seq"]),
        lastSeq: Number(row["last_seq"]),
        sum: Number(row["sum"]),
        sumMonoMs: Number(row["mono_ms"]),
      });
    }
  }
  // Every sample has one row of this signal, and all its rows travel together.
  const lags = await store.query(
    `SELECT (epoch_us(stored_at) - epoch_us("time")) / 1000 AS lag_ms FROM raw.host
     WHERE epoch_ms("time") BETWEEN ${fromMs} AND ${toMs} ORDER BY lag_ms`,
  );
  return { sums, lagsMs: lags.map((row) => Number(row["lag_ms"])) };
}

/** Returns the number of rows; throws at the first difference. */
function compare(made: Record<string, Record<string, Made>>, stored: Stored["sums"]): number {
  let total = 0;
  for (const [agentId, bySignal] of Object.entries(made)) {
    for (const [name, wanted] of Object.entries(bySignal)) {
      const found = stored.get(`${agentId} ${name}`);
      const isWhole = found?.rows === wanted.rows && found.seqs === wanted.rows && found.firstSeq === 1 && found.lastSeq === wanted.rows;
      if (!isWhole || !isClose(found.sum, wanted.sum) || !isClose(found.sumMonoMs, wanted.sumMonoMs)) {
        throw new Error(`Agent ${agentId} made ${JSON.stringify(wanted)} of ${name}; the colony has ${JSON.stringify(found)}`);
      }
      total += wanted.rows;
    }
  }
  return total;
}

/** DuckDB sums floats in a different order. */
function isClose(found: number, wanted: number): boolean {
  return Math.abs(found - wanted) <= Math.abs(wanted) * 1e-9;
}
