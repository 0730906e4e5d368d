/**
 * Queries over ten million spans of a thousand services in two hours: percentiles of one service over an hour, of all services, a trace by its
 * id, the topology; alone, and during ingest at half of its target rate on the same two cores: decoded and
 * written by one process, ingested and counted by the one that runs the queries. A tenth of the spans with CORAL_BENCH_SMALL=1.
 */

import { createReadStream, mkdirSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { type Clock, systemClock } from "../src/base/clock.ts";
import { silentLogger } from "../src/base/log.ts";
import { SpanDecoder } from "../src/otlp/decode/trace-request.ts";
import { openAgentStore } from "../src/store/agent/index.ts";
import { type ColonyStore, openColonyStore } from "../src/store/colony/index.ts";
import { openEngine } from "../src/store/engine/index.ts";
import { queryEdgeRed, queryEdges, querySpanEdges, querySpanProcesses, querySpanRed, queryTrace } from "../src/store/queries/index.ts";
import { type SegmentEntry, sealSegment } from "../src/store/segments/index.ts";
import { derivedSignals, segmentSignals, signals, span } from "../src/store/signals/index.ts";
import type { ColonyBackend } from "../src/tools/index.ts";
import { getTopology } from "../src/tools/network/get-topology.ts";
import { figureOf, isSmall, report, single } from "./lib/report.ts";
import { fillColony, runWriter } from "./lib/span-colony.ts";
import { makeSpanRequests } from "./lib/span-requests.ts";
import { percentileOf, spreadOf } from "./lib/spread.ts";
import { role, roleArguments, serveParent, Worker } from "./lib/worker.ts";

const spans = isSmall ? 1_000_000 : 10_000_000;
const services = 1_000;
const rounds = isSmall ? 15 : 40;
const mebibyte = 1024 ** 2;
const hourMs = 3_600_000;
const endMs = Date.UTC(2026, 0, 2);
/** Two hours in all. */
const traceEveryUs = (2 * hourMs * 1_000) / (spans / 5);
/** Half of the 120,000 spans a second that ingest must reach. */
const ingestPerSecond = 60_000;
/** While filling, roll-ups run every ten minutes of span time. */
let passedMs = 0;
const clock: Clock = { wallMs: () => endMs, monotonicMs: () => performance.now() + passedMs };
const world = { services, agents: 4, segmentRows: 20_000, startUs: (endMs - 2 * hourMs) * 1_000, traceEveryUs, seed: 7 };

/** An agent without listeners: request bodies at a steady rate into segments, decoded on this thread. */
async function runIngest(directory: string): Promise<void> {
  mkdirSync(directory, { recursive: true });
  await using engine = await openEngine({ dataDirectories: [directory], memoryLimitBytes: 64 * mebibyte, threads: 1, log: silentLogger });
  await using store = await openAgentStore(engine, {
    file: join(directory, "agent.duckdb"),
    signals: [],
    maxBytes: 64 * mebibyte,
    clock: systemClock,
    log: silentLogger,
    segments: {
      signals: [span],
      directory,
      maxBytes: 4_096 * mebibyte,
      seal: (job) =>
        Promise.resolve(
          sealSegment(span, job, (records) => {
            const decoder = new SpanDecoder();
            for (const { body, receivedUs } of records) decoder.add(body, receivedUs);
            return { batch: decoder.finish() };
          }),
        ),
    },
  });
  const { segments } = store;
  if (segments === undefined) throw new Error("the store was opened without segments");
  const requests = makeSpanRequests(60, { minSpans: 100, maxSpans: 500, seed: 3 });
  let [sent, sendings, startedMs] = [0, 0, 0];
  const timer = setInterval(() => {
    if (startedMs === 0) return;
    for (const due = ((performance.now() - startedMs) / 1_000) * ingestPerSecond; sent < due; ) {
      const request = requests[sendings % requests.length];
      if (request === undefined) return;
      // Timestamps continue those of the stored spans, within the queried range.
      request.stamp(++sendings, endMs - 1_000);
      sent += request.spans;
      segments
        .append("span", { kind: 0, rows: request.spans, receivedUs: endMs * 1_000, body: Buffer.from(request.body) })
        .catch(() => undefined);
    }
  }, 10);
  await serveParent(async (request: { after: number } | "start" | "stop") => {
    if (request === "start") startedMs = performance.now() - (sent / ingestPerSecond) * 1_000;
    if (request === "stop") startedMs = 0;
    if (typeof request === "string") return { epoch: store.epoch, stored: segments.stats()["span"]?.rows };
    const { entries, lastNumber, totalRows, more } = segments.listAfter("span", request.after, 16);
    const filters = await segments.lookupFilters(entries);
    const offers = entries.map((entry) => ({ ...entry, filter: Buffer.from(filters.get(entry) ?? []).toString("base64") }));
    return { offers, lastNumber, totalRows, isAll: !more };
  });
  clearInterval(timer);
}

/** The colony's side: pulls every second and counts every five seconds. */
class Ingest {
  readonly #store: ColonyStore;
  readonly #worker: Worker;
  readonly #directory: string;
  #epoch = "";
  #timer: NodeJS.Timeout | undefined;
  #work: Promise<void> = Promise.resolve();
  #ticks = 0;
  rows = 0;

  constructor(store: ColonyStore, worker: Worker, directory: string) {
    this.#store = store;
    this.#worker = worker;
    this.#directory = directory;
  }

  async start(): Promise<void> {
    const { epoch } = await this.#worker.ask<{ epoch: string }>("start");
    this.#epoch = epoch;
    this.#timer = setInterval(() => {
      this.#work = this.#work.then(() => this.#pull());
    }, 1_000);
  }

  async stop(): Promise<void> {
    clearInterval(this.#timer);
    await this.#work;
    await this.#worker.ask("stop");
  }

  async #pull(): Promise<void> {
    const { segments } = this.#store;
    if (segments === undefined) return;
    const after = segments.checkpoints("agent-live", this.#epoch).get("span") ?? 0;
    type Listed = { offers: (SegmentEntry & { filter: string })[]; lastNumber: number; totalRows: number; isAll: boolean };
    const { offers, ...listing } = await this.#worker.ask<Listed>({ after });
    const given = offers.map(({ filter, ...entry }) => ({ ...entry, isLost: false, lookupFilter: Buffer.from(filter, "base64") }));
    for (const offer of given) {
      const file = join(this.#directory, "segments/span", `${String(offer.number).padStart(9, "0")}.parquet`);
      await segments.receive("agent-live", this.#epoch, offer, createReadStream(file, { highWaterMark: mebibyte }));
      this.rows += offer.rows;
    }
    await segments.commit({ agentId: "agent-live", epoch: this.#epoch, signals: [{ signal: "span", offers: given, ...listing }] });
    if (++this.#ticks % 5 === 0) await this.#store.derive();
    if (this.#ticks % 30 === 0) await this.#store.rollup();
  }
}

/** The store as the colony passes it to its tools, without agents. */
function backendOf(store: ColonyStore): ColonyBackend {
  const parts: Partial<ColonyBackend> = {
    agents: () => Promise.resolve([]),
    losses: () => Promise.resolve([]),
    coverage: () => Promise.resolve({ unobserved: [], kept: [], nowMs: 0 }),
    services: () => Promise.resolve([]),
    edges: async (request) =>
      ({ ...(await queryEdges(store, { ...request, database: store.database.name, nowMs: endMs })), problems: [] }) as never,
    edgeRed: (request) => queryEdgeRed(store, { ...request, nowMs: endMs }) as never,
    spanEdges: (request) => querySpanEdges(store, { ...request, nowMs: endMs }),
    spanProcesses: () => querySpanProcesses(store, { nowMs: endMs }),
  };
  return parts as ColonyBackend;
}

interface Question {
  name: string;
  belowMs?: number;
  ask: (round: number) => Promise<unknown>;
}

function questionsOf(store: ColonyStore, traces: readonly string[]): Question[] {
  const hour = { startMs: endMs - hourMs, endMs, limit: 2_000 };
  // Alternate between busy and quiet services.
  const service = (round: number): string => `service-${[0, 3, 20, 150, 700][round % 5]}`;
  const backend = backendOf(store);
  // The last traces are incomplete.
  const whole = traces.slice(0, Math.floor(traces.length * 0.9));
  const signal = new AbortController().signal;
  const readTrace = async (round: number, details: boolean): Promise<void> => {
    const { total } = await queryTrace(store, { traceId: whole[(round * 7) % whole.length] ?? "", maxSpans: 500, details });
    if (total !== 5) throw new Error(`A trace has ${total} spans instead of 5`);
  };
  return [
    {
      name: "one service's percentiles, 1 h",
      belowMs: 20,
      ask: (round) => querySpanRed(store, { ...hour, by: [], service: service(round) }),
    },
    { name: "one service by route, 1 h", ask: (round) => querySpanRed(store, { ...hour, by: ["route"], service: service(round) }) },
    { name: "all services' percentiles, 5 min", ask: () => querySpanRed(store, { ...hour, startMs: endMs - hourMs / 12, by: [] }) },
    { name: "all services' percentiles, 1 h", ask: () => querySpanRed(store, { ...hour, by: [] }) },
    { name: "a trace by its id", belowMs: 20, ask: (round) => readTrace(round, false) },
    { name: "a trace by its id, with attributes", ask: (round) => readTrace(round, true) },
    {
      name: "topology, 1 h",
      belowMs: 200,
      ask: () => getTopology.call(backend, { since: "1h" }, { signal }),
    },
  ];
}

async function timeMs({ ask }: Question): Promise<number[]> {
  for (let round = 0; round < 3; round++) await ask(round);
  const taken: number[] = [];
  for (let round = 0; round < rounds; round++) {
    const startMs = performance.now();
    await ask(round);
    taken.push(performance.now() - startMs);
  }
  return taken;
}

async function rollUp(store: ColonyStore): Promise<void> {
  passedMs += hourMs / 6;
  await store.rollup();
}

async function runMain(): Promise<void> {
  const directory = process.env["CORAL_BENCH_DIRECTORY"] ?? mkdtempSync(join(tmpdir(), "coral-bench-"));
  try {
    mkdirSync(directory, { recursive: true });
    await using engine = await openEngine({
      dataDirectories: [directory],
      memoryLimitBytes: 1_024 * mebibyte,
      threads: 2,
      tempDirectory: directory,
      log: silentLogger,
    });
    await using store = await openColonyStore(engine, {
      file: join(directory, "colony.duckdb"),
      signals: [...signals, ...derivedSignals],
      maxBytes: 16 * 1_024 * mebibyte,
      segments: { signals: segmentSignals, directory, maxBytes: 16 * 1_024 * mebibyte },
      clock,
      log: silentLogger,
    });
    const startMs = performance.now();
    const cpu = { derive: 0, rollup: 0 };
    const timed = async (what: keyof typeof cpu, work: () => Promise<unknown>): Promise<void> => {
      const before = process.cpuUsage();
      await work();
      const used = process.cpuUsage(before);
      cpu[what] += used.user + used.system;
    };
    let segments = 0;
    await using writer = new Worker("writer", [directory]);
    const traces = await fillColony(store, writer, spans, async () => {
      if (++segments % 10 === 0) await timed("derive", () => store.derive());
      if (segments % 50 === 0) await timed("rollup", () => rollUp(store));
    });
    await timed("derive", () => store.derive());
    await timed("rollup", () => rollUp(store));
    await store.database.checkpoint();
    const filledMs = performance.now() - startMs;
    const [counted] = await store.query("SELECT sum(requests) AS n, count(*) AS rows FROM raw.span_red");
    const stored = store.segments?.stats()["span"];
    if (Number(counted?.["n"]) !== stored?.rows) throw new Error(`${counted?.["n"]} of ${stored?.rows} spans were counted`);
    const { usedBytes } = await store.database.size();

    const questions = questionsOf(store, traces);
    const alone = new Map<Question, number[]>();
    for (const question of questions) alone.set(question, await timeMs(question));
    const ingestDirectory = join(directory, "ingest");
    await using worker = new Worker("ingest", [ingestDirectory]);
    const ingest = new Ingest(store, worker, ingestDirectory);
    await ingest.start();
    await new Promise((resolve) => setTimeout(resolve, 3_000));
    const ingestStartMs = performance.now();
    const rowsBefore = ingest.rows;
    const busy = new Map<Question, number[]>();
    for (const question of questions) busy.set(question, await timeMs(question));
    const ingested = (ingest.rows - rowsBefore) / ((performance.now() - ingestStartMs) / 1_000);
    await ingest.stop();
    const sorted = (values: readonly number[] | undefined): number[] => [...(values ?? [])].sort((a, b) => a - b);
    report({
      name: "span-queries",
      sizes: { spans, services, rounds },
      figures: [
        ...questions.map((question) =>
          figureOf(
            question.name,
            "ms",
            spreadOf(alone.get(question) ?? []),
            question.belowMs === undefined ? undefined : { kind: "below", value: question.belowMs },
          ),
        ),
        ...questions.map((question) =>
          figureOf(
            `${question.name}, with ingest`,
            "×",
            single(percentileOf(sorted(busy.get(question)), 0.5) / percentileOf(sorted(alone.get(question)), 0.5)),
            { kind: "at-most", value: 2 },
          ),
        ),
        figureOf("ingested meanwhile", "rows/s", single(ingested)),
        figureOf("CPU to count a span", "µs", single(cpu.derive / spans)),
        figureOf("CPU to roll up, by span", "µs", single(cpu.rollup / spans)),
        figureOf("tables, by span", "B", single(usedBytes / spans)),
        figureOf("segments, by span", "B", single((stored?.sizeBytes ?? 0) / spans)),
      ],
      notes: [
        `p95 alone: ${questions.map((question) => `${question.name} ${percentileOf(sorted(alone.get(question)), 0.95).toFixed(1)} ms`).join("; ")}`,
        `p95 with ingest: ${questions.map((question) => `${question.name} ${percentileOf(sorted(busy.get(question)), 0.95).toFixed(1)} ms`).join("; ")}`,
        `filled in ${Math.round(filledMs / 1_000)} s; ${counted?.["rows"]} rows of span_red`,
      ],
    });
  } finally {
    if (process.env["CORAL_BENCH_DIRECTORY"] === undefined) rmSync(directory, { recursive: true, force: true });
  }
}

if (role === "writer") await runWriter(roleArguments[0] ?? "", world);
else if (role === "ingest") await runIngest(roleArguments[0] ?? "");
else await runMain();
