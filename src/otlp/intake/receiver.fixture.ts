/** A receiver with a real store and a real worker, for tests. */

import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { build } from "esbuild";
import { ByteBudget } from "../../base/byte-budget.ts";
import { systemClock } from "../../base/clock.ts";
import { silentLogger } from "../../base/log.ts";
import { ResourceStack } from "../../base/resource-stack.ts";
import { type AgentStore, openAgentStore } from "../../store/agent/index.ts";
import { openEngine, type Row } from "../../store/engine/index.ts";
import { type AgentSegments, type AgentSegmentsOptions } from "../../store/segments/index.ts";
import { type SegmentSignal, type Signal, segmentSignals } from "../../store/signals/index.ts";
import { DecodePool, type DecodePoolOptions } from "./decode-pool.ts";
import { OtlpReceiver, type OtlpReceiverOptions } from "./receiver.ts";
import { SamplingBudget } from "./sampling-budget.ts";

/** Bundles the worker once per test file. */
export async function bundleWorker(directory: string): Promise<string> {
  const file = join(directory, "decode-worker.mjs");
  await build({
    entryPoints: [join(import.meta.dirname, "../../main/decode-worker.ts")],
    outfile: file,
    bundle: true,
    platform: "node",
    format: "esm",
    external: ["@duckdb/*"],
    logLevel: "error",
  });
  return file;
}

export interface TestReceiver extends AsyncDisposable {
  directory: string;
  store: AgentStore;
  segments: AgentSegments;
  pool: DecodePool;
  receiver: OtlpReceiver;
  /** Rows of a signal, after everything that was accepted is stored. */
  rows(signal: SegmentSignal, columns?: string): Promise<Row[]>;
}

export interface TestReceiverOptions {
  workerFile: string;
  directory?: string;
  pool?: Partial<DecodePoolOptions>;
  segments?: Partial<AgentSegmentsOptions>;
  receiver?: Partial<OtlpReceiverOptions>;
  /** Signals of tables; default none. */
  signals?: readonly Signal[];
}

export async function openTestReceiver(options: TestReceiverOptions): Promise<TestReceiver> {
  const stack = new ResourceStack();
  const directory = options.directory ?? mkdtempSync(join(tmpdir(), "coral-otlp-"));
  if (options.directory === undefined) stack.defer(async () => rmSync(directory, { recursive: true, force: true }));
  const engine = stack.use(
    await openEngine({ dataDirectories: [directory], memoryLimitBytes: 256 * 1024 ** 2, threads: 1, log: silentLogger }),
  );
  const pool = stack.use(
    new DecodePool({
      file: options.workerFile,
      sampling: new SamplingBudget({ bytesPerSecond: undefined, slowMs: 500 }),
      clock: systemClock,
      log: silentLogger,
      ...options.pool,
    }),
  );
  const store = stack.use(
    await openAgentStore(engine, {
      file: join(directory, "agent.duckdb"),
      signals: options.signals ?? [],
      maxBytes: 64 * 1024 ** 2,
      clock: systemClock,
      log: silentLogger,
      segments: { signals: segmentSignals, directory, maxBytes: 256 * 1024 ** 2, seal: pool.seal, retryMs: 20, ...options.segments },
    }),
  );
  const segments = store.segments as AgentSegments;
  const receiver = new OtlpReceiver({
    segments,
    pool,
    maxBodyBytes: 16 * 1024 ** 2,
    budget: new ByteBudget(64 * 1024 ** 2),
    clock: systemClock,
    log: silentLogger,
    ...options.receiver,
  });
  const rows = async (signal: SegmentSignal, columns = "*"): Promise<Row[]> => {
    await segments.flush();
    const { sql } = await segments.segmentSource(signal);
    return store.query(`SELECT ${columns} FROM ${sql}`);
  };
  return { directory, store, segments, pool, receiver, rows, [Symbol.asyncDispose]: () => stack[Symbol.asyncDispose]() };
}
