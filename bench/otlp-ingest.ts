/**
 * OTLP span ingest, from the sender's socket until spans are queryable: an agent's receiver (listeners, write-ahead files, decode workers, segments,
 * with an agent's V8 flags) and a cheap sender, in separate processes, together on two cores. The baseline sends the same requests through the
 * same listener into a table, decoded by protobufjs and appended row by row. A fifth of it with CORAL_BENCH_SMALL=1.
 */

import { mkdtempSync, readdirSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { DuckDBInstance } from "@duckdb/node-api";
import { type Sent, sendByHttp } from "./lib/http-sender.ts";
import { type ReceiverReport, type ReceiverRequest, runReceiver } from "./lib/otlp-receiver.ts";
import { cpuNsOf } from "./lib/process-usage.ts";
import { figureOf, isSmall, report } from "./lib/report.ts";
import { type RowReceiverRequest, runRowReceiver } from "./lib/row-receiver.ts";
import { makeSpanRequests, type SpanRequestShape } from "./lib/span-requests.ts";
import { ratioOf } from "./lib/spread.ts";
import { role, roleArguments, serveParent, Worker } from "./lib/worker.ts";

const rounds = isSmall ? 1 : 3;
const scale = isSmall ? 0.2 : 1;
const mebibyte = 1024 ** 2;

interface Load {
  shape: SpanRequestShape;
  requests: number;
  connections: number;
  spans: number;
  spansPerSecond?: number;
}

const shape: SpanRequestShape = { minSpans: 100, maxSpans: 500, seed: 1 };
/** Warm-up, not counted. */
const warmUp: Load = { shape, requests: 160, connections: 8, spans: 200_000 * scale };
const batches: Load = { shape, requests: 160, connections: 8, spans: 1_200_000 * scale };
/** With one worker, as on a host whose agent must stay small. */
const forOneWorker: Load = { ...batches, spans: 400_000 * scale };
const forRows: Load = { ...batches, spans: 200_000 * scale };
/** Other runs send as fast as responses arrive. */
const evenly: Load = { ...batches, spans: 600_000 * scale, spansPerSecond: 100_000 };
const singles: Load = { shape: { minSpans: 1, maxSpans: 1, seed: 2 }, requests: 20_000, connections: 64, spans: 150_000 * scale };

const soon = { kind: "at-most", value: 1_000 } as const;

interface SendRequest {
  load: Load;
  port: number;
  firstSending: number;
}

async function runSender(): Promise<void> {
  const made = new Map<number, ReturnType<typeof makeSpanRequests>>();
  await serveParent(async ({ load, port, firstSending }: SendRequest): Promise<Sent> => {
    let requests = made.get(load.shape.seed);
    if (requests === undefined) made.set(load.shape.seed, (requests = makeSpanRequests(load.requests, load.shape)));
    if (port === 0) return { sendings: 0, spans: 0, bytes: 0, refused: 0, seconds: 0 };
    const { connections, spans, spansPerSecond } = load;
    return sendByHttp({ port, path: "/v1/traces", requests, connections, firstSending, ...(spansPerSecond && { spansPerSecond }) }, spans);
  });
}

interface Outcome {
  sent: Sent;
  receiver: ReceiverReport;
  /** From the first byte sent until the last span is queryable. */
  rowsPerSecond: number;
  senderUs: number;
  receiverUs: number;
}

let sendings = 1;

async function measure(sender: Worker, receiver: Worker, load: Load): Promise<Outcome> {
  await sender.ask({ load, port: 0, firstSending: 0 } satisfies SendRequest);
  const { port } = await receiver.ask<{ port: number }>({ kind: "begin" } satisfies ReceiverRequest);
  const before = { sender: cpuNsOf(sender.pid), receiver: cpuNsOf(receiver.pid), atMs: performance.now() };
  const sent = await sender.ask<Sent>({ load, port, firstSending: sendings } satisfies SendRequest);
  sendings += sent.sendings;
  const result = await receiver.ask<ReceiverReport>({ kind: "end", spans: sent.spans } satisfies ReceiverRequest);
  const seconds = (performance.now() - before.atMs) / 1_000;
  return {
    sent,
    receiver: result,
    rowsPerSecond: sent.spans / seconds,
    senderUs: (cpuNsOf(sender.pid) - before.sender) / 1_000 / sent.spans,
    receiverUs: (cpuNsOf(receiver.pid) - before.receiver) / 1_000 / sent.spans,
  };
}

/** The same requests into a table; the receiver checks the number of stored rows. */
async function measureRows(sender: Worker, receiver: Worker, load: Load): Promise<Pick<Round, "rowsPerSecond" | "rowUs">> {
  const { port } = await receiver.ask<{ port: number }>({ kind: "begin" } satisfies RowReceiverRequest);
  const startMs = performance.now();
  const beforeNs = cpuNsOf(receiver.pid);
  const sent = await sender.ask<Sent>({ load, port, firstSending: sendings } satisfies SendRequest);
  sendings += sent.sendings;
  await receiver.ask({ kind: "end", spans: sent.spans } satisfies RowReceiverRequest);
  return {
    rowsPerSecond: (sent.spans / (performance.now() - startMs)) * 1_000,
    rowUs: (cpuNsOf(receiver.pid) - beforeNs) / 1_000 / sent.spans,
  };
}

/** Checks that every acknowledged span is stored once. Runs outside the receiver, whose database is limited to 64 MiB. */
async function checkIds(folder: string, spans: number): Promise<void> {
  const connection = await (await DuckDBInstance.create(":memory:", { threads: "1", memory_limit: "2GB" })).connect();
  const files = readdirSync(folder).filter((name) => /^\d/.test(name));
  const list = files.map((name) => `'${join(folder, name)}'`).join(", ");
  const [[rows, ids] = []] = await (
    await connection.run(`SELECT count(*), count(DISTINCT span_id) FROM read_parquet([${list}])`)
  ).getRows();
  connection.closeSync();
  if (Number(rows) !== spans || Number(ids) !== spans)
    throw new Error(`${spans} spans were acknowledged, ${rows} are stored with ${ids} ids`);
}

async function measureOneWorker(sender: Worker, directory: string): Promise<Outcome> {
  await using receiver = new Worker("receiver", [directory, "1"], []);
  await measure(sender, receiver, warmUp);
  return await measure(sender, receiver, forOneWorker);
}

interface Round {
  full: Outcome;
  steady: Outcome;
  single: Outcome;
  /** Batches at full speed, with one worker instead of two. */
  oneWorker: Outcome;
  /** Through protobufjs into a table, and its CPU per span. */
  rowsPerSecond: number;
  rowUs: number;
}

async function runRound(sender: Worker, directory: string): Promise<Round> {
  try {
    // Without source maps, which would take a tenth of its memory.
    await using receiver = new Worker("receiver", [join(directory, "receiver")], []);
    const warm = await measure(sender, receiver, warmUp);
    const outcomes = {
      full: await measure(sender, receiver, batches),
      steady: await measure(sender, receiver, evenly),
      single: await measure(sender, receiver, singles),
    };
    await receiver[Symbol.asyncDispose]();
    const acknowledged = [warm, ...Object.values(outcomes)].reduce((sum, { sent }) => sum + sent.spans, 0);
    await checkIds(join(directory, "receiver/segments/span"), acknowledged);
    const oneWorker = await measureOneWorker(sender, join(directory, "one-worker"));
    await using rows = new Worker("rows", [join(directory, "rows")], []);
    return { ...outcomes, oneWorker, ...(await measureRows(sender, rows, forRows)) };
  } finally {
    rmSync(directory, { recursive: true, force: true });
  }
}

async function runMain(): Promise<void> {
  await using sender = new Worker("sender", [], []);
  const measured: Round[] = [];
  for (let round = 0; round < rounds; round++) measured.push(await runRound(sender, mkdtempSync(join(tmpdir(), "coral-bench-"))));
  reportAll(measured);
}

function reportAll(measured: readonly Round[]): void {
  const each = (name: "full" | "steady" | "single" | "oneWorker", of: (outcome: Outcome) => number): number[] =>
    measured.map((round) => of(round[name]));
  const rates = each("full", ({ rowsPerSecond }) => rowsPerSecond);
  const rows = measured.map(({ rowsPerSecond }) => rowsPerSecond);
  const refused = measured
    .flatMap(({ full, steady, single, oneWorker }) => [full, steady, single, oneWorker])
    .reduce((sum, { sent }) => sum + sent.refused, 0);
  const threads = measured.map(({ full }) => full.receiver.threadsUs.map((us) => us.toFixed(1)).join(" "));
  report({
    name: "otlp-ingest",
    sizes: { rounds, spans: batches.spans, steadySpans: evenly.spans, requests: singles.spans, rowSpans: forRows.spans },
    figures: [
      figureOf("batches, sent until all can be queried", "rows/s", rates, { kind: "at-least", value: 120_000 }),
      figureOf("protobufjs and rows appended to a table", "rows/s", rows),
      figureOf("batches, of that", "×", ratioOf(rates, rows), { kind: "at-least", value: 3 }),
      figureOf(
        "CPU of the receiver per span",
        "µs",
        each("full", ({ receiverUs }) => receiverUs),
      ),
      figureOf(
        "CPU of the sender per span",
        "µs",
        each("full", ({ senderUs }) => senderUs),
      ),
      figureOf(
        "event loop delay p99, full speed",
        "ms",
        each("full", ({ receiver }) => receiver.loopP99Ms),
        { kind: "below", value: 10 },
      ),
      figureOf(
        "received to queryable p99, full speed",
        "ms",
        each("full", ({ receiver }) => receiver.lagP99Ms),
        soon,
      ),
      figureOf(
        "received to queryable p99, 100,000 spans/s",
        "ms",
        each("steady", ({ receiver }) => receiver.lagP99Ms),
        soon,
      ),
      figureOf(
        "bytes of a span on disk",
        "B",
        each("full", ({ receiver }) => receiver.bytesPerSpan),
        { kind: "at-most", value: 160 },
      ),
      figureOf(
        "RSS of the receiver, peak",
        "MiB",
        each("single", ({ receiver }) => receiver.peakRssBytes / mebibyte),
        {
          kind: "below",
          value: 300,
        },
      ),
      figureOf(
        "one worker: batches, sent until all can be queried",
        "rows/s",
        each("oneWorker", ({ rowsPerSecond }) => rowsPerSecond),
      ),
      figureOf(
        "one worker: RSS of the receiver, peak",
        "MiB",
        each("oneWorker", ({ receiver }) => receiver.peakRssBytes / mebibyte),
        { kind: "below", value: 256 },
      ),
      figureOf(
        "single spans, sent until all can be queried",
        "requests/s",
        each("single", ({ rowsPerSecond }) => rowsPerSecond),
        {
          kind: "at-least",
          value: 20_000,
        },
      ),
      figureOf(
        "CPU of the receiver per request",
        "µs",
        each("single", ({ receiverUs }) => receiverUs),
      ),
      figureOf(
        "CPU of the sender per request",
        "µs",
        each("single", ({ senderUs }) => senderUs),
      ),
      figureOf(
        "event loop delay p99, single spans",
        "ms",
        each("single", ({ receiver }) => receiver.loopP99Ms),
        { kind: "below", value: 10 },
      ),
    ],
    notes: [
      "Every acknowledged span was found once, by its id.",
      `Rejected requests: ${refused}.`,
      `Receiver CPU per span by thread, main thread first: ${threads.join("; ")} µs.`,
    ],
  });
}

if (role === "sender") await runSender();
else if (role === "receiver") await runReceiver(roleArguments[0] ?? "", Number(roleArguments[1] ?? 2));
else if (role === "rows") await runRowReceiver(roleArguments[0] ?? "");
else await runMain();
