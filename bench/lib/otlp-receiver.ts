/** An agent's path from OTLP listeners to segments, in a separate process, with measurements taken while it runs. */

import { mkdirSync, readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { monitorEventLoopDelay } from "node:perf_hooks";
import { systemClock } from "../../src/base/clock.ts";
import { silentLogger } from "../../src/base/log.ts";
import { preferMemory, spareMemory } from "../../src/main/daemon/spare-memory.ts";
import { createOtlpClient, OtlpIntake, startOtlpServers } from "../../src/otlp/index.ts";
import { openAgentStore } from "../../src/store/agent/index.ts";
import { openEngine } from "../../src/store/engine/index.ts";
import { segmentSignals, span } from "../../src/store/signals/index.ts";
import { usageOf } from "./process-usage.ts";
import { percentileOf } from "./spread.ts";
import { serveParent } from "./worker.ts";

export type ReceiverRequest = { kind: "begin" } | { kind: "end"; spans: number };

/** Cost of receiving, from /proc, and the bytes stored. */
export interface ReceiverReport {
  /** From the acknowledgement of a span until it is queryable. */
  lagP50Ms: number;
  lagP99Ms: number;
  loopP50Ms: number;
  loopP99Ms: number;
  loopMaxMs: number;
  /** Since the process started. */
  peakRssBytes: number;
  bytesPerSpan: number;
  /** CPU per span of the busiest threads, the main thread first. */
  threadsUs: number[];
}

const mebibyte = 1024 ** 2;
/** Between two checks whether all spans are queryable. */
const pollMs = 20;
/** Acknowledged spans must be queryable within this time. */
const queryableMaxMs = 30_000;

/** The receiver in its own process, so that its CPU time can be read separately from the sender's. */
export async function runReceiver(directory: string, workers: number): Promise<void> {
  spareMemory("agent");
  mkdirSync(directory, { recursive: true });
  const intake = new OtlpIntake({
    config: {
      enabled: true,
      grpc: { host: "127.0.0.1", port: 0 },
      http: { host: "127.0.0.1", port: 0 },
      tokenFile: undefined,
      maxBodyBytes: 16 * mebibyte,
      maxInFlightBytes: 64 * mebibyte,
      maxConnections: 512,
      workers,
      sampling: { bytesPerSecond: undefined, slowMs: 500 },
      forward: undefined,
    },
    network: { listen: startOtlpServers, connect: createOtlpClient },
    onLoad: (isBusy) => preferMemory("agent", !isBusy),
    clock: systemClock,
    log: silentLogger,
  });
  const engine = await openEngine({ dataDirectories: [directory], memoryLimitBytes: 64 * mebibyte, threads: 1, log: silentLogger });
  const store = await openAgentStore(engine, {
    file: join(directory, "agent.duckdb"),
    signals: [],
    maxBytes: 64 * mebibyte,
    clock: systemClock,
    log: silentLogger,
    segments: { signals: segmentSignals, directory, maxBytes: 4_096 * mebibyte, seal: intake.pool.seal, sealConcurrency: workers },
  });
  const { segments } = store;
  if (segments === undefined) throw new Error("the store was opened without segments");
  await intake.start({ segments: () => store.segments });
  const port = Number(intake.status().http?.split(":").at(-1));
  const stored = (): { rows: number; sizeBytes: number } => segments.stats()["span"] ?? { rows: 0, sizeBytes: 0 };
  const accepted = (): number => intake.status().received.find(({ signal }) => signal === "traces")?.rows ?? 0;
  const loop = monitorEventLoopDelay({ resolution: 1 });
  let looks: { atMs: number; accepted: number; stored: number }[] = [];
  const look = (): void => void looks.push({ atMs: performance.now(), accepted: accepted(), stored: stored().rows });
  let timer: NodeJS.Timeout | undefined;
  let before = { ...stored(), threads: threadsNs() };

  await serveParent(async (request: ReceiverRequest): Promise<unknown> => {
    if (request.kind === "begin") {
      before = { ...stored(), threads: threadsNs() };
      looks = [];
      timer = setInterval(look, pollMs);
      loop.reset();
      loop.enable();
      return { port };
    }
    const wanted = before.rows + request.spans;
    const deadlineMs = performance.now() + queryableMaxMs;
    while (stored().rows < wanted && performance.now() < deadlineMs) await new Promise((resolve) => setTimeout(resolve, 5));
    look();
    clearInterval(timer);
    loop.disable();
    const { sql } = await segments.segmentSource(span);
    const [found] = await store.query(`SELECT count(*) AS spans FROM ${sql}`);
    if (Number(found?.["spans"]) !== wanted) throw new Error(`${wanted} spans were acknowledged, ${found?.["spans"]} can be queried`);
    const lags = lagsOf(looks);
    const after = stored();
    return {
      lagP50Ms: percentileOf(lags, 0.5),
      lagP99Ms: percentileOf(lags, 0.99),
      loopP50Ms: loop.percentile(50) / 1e6,
      loopP99Ms: loop.percentile(99) / 1e6,
      loopMaxMs: loop.max / 1e6,
      peakRssBytes: usageOf(process.pid).peakRssBytes,
      bytesPerSpan: (after.sizeBytes - before.sizeBytes) / request.spans,
      threadsUs: busiest(before.threads, threadsNs(), request.spans),
    } satisfies ReceiverReport;
  });
  await intake.stop();
  await store.close();
  await intake[Symbol.asyncDispose]();
  await engine.close();
  process.exit(0);
}

/** Ascending. Segments are stored in the order of arrival of their spans. */
function lagsOf(looks: readonly { atMs: number; accepted: number; stored: number }[]): number[] {
  const lags: number[] = [];
  let later = 0;
  for (const { atMs, accepted } of looks) {
    while (later < looks.length && (looks[later]?.stored ?? 0) < accepted) later++;
    const seen = looks[later];
    if (seen !== undefined) lags.push(seen.atMs - atMs);
  }
  return lags.sort((a, b) => a - b);
}

function threadsNs(): Map<string, number> {
  const folder = "/proc/self/task";
  return new Map(readdirSync(folder).map((task) => [task, Number(readFileSync(join(folder, task, "schedstat"), "utf8").split(" ")[0])]));
}

function busiest(before: ReadonlyMap<string, number>, after: ReadonlyMap<string, number>, spans: number): number[] {
  const used = [...after].map(([task, ns]) => ({ task, us: (ns - (before.get(task) ?? 0)) / 1_000 / spans }));
  const main = used.find(({ task }) => task === String(process.pid))?.us ?? Number.NaN;
  const others = used.filter(({ task }) => task !== String(process.pid)).map(({ us }) => us);
  return [main, ...others.sort((a, b) => b - a).slice(0, 4)];
}
