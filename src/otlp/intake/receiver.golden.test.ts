/** Golden write-ahead files of spans and log lines: what a build left unsealed, the next one must decode into the same rows. */

import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { ByteBudget } from "../../base/byte-budget.ts";
import { silentLogger } from "../../base/log.ts";
import { type Engine, openEngine } from "../../store/engine/index.ts";
import { readWriteAhead, type WriteAheadRecord } from "../../store/segments/index.ts";
import { logRecord, span } from "../../store/signals/index.ts";
import { type TestSpan, traceRequest } from "../decode/otlp-encoder.fixture.ts";
import { encodeLogLines } from "../logs/encode-log-lines.ts";
import type { DecodeReport } from "./decode-orders.ts";
import type { DecodePool } from "./decode-pool.ts";
import { OtlpReceiver } from "./receiver.ts";
import { runDecodeWorker } from "./run-decode-worker.ts";

/** Base64 of a write-ahead file, and its rows without the columns that are null. */
interface Golden {
  writeAhead: string;
  rows: Record<string, unknown>[];
}
const golden = JSON.parse(readFileSync(new URL("./receiver.golden.json", import.meta.url), "utf8")) as { span: Golden; log: Golden };

const receivedMs = Date.UTC(2026, 0, 1);
const startNs = 1_767_225_600_000_000_000n;
const sent: TestSpan = {
  traceId: "0af7651916cd43dd8448eb211c80319c",
  spanId: "b7ad6b7169203331",
  parentSpanId: "00f067aa0ba902b7",
  traceState: "vendor=1",
  name: "GET /users/{id}",
  kind: 2,
  startNs,
  endNs: startNs + 5_000_123n,
  attributes: {
    "http.request.method": "GET",
    "http.route": "/users/{id}",
    "http.response.status_code": 500n,
    größe: "groß",
    ratio: 0.5,
    flags: [true, false],
    nested: { a: 1n },
  },
  events: [{ timeNs: startNs + 1_000n, name: "exception", attributes: { "exception.type": "Oops" }, dropped: 1 }],
  links: [{ traceId: "11".repeat(16), spanId: "22".repeat(8), traceState: "x=1", attributes: { why: "retry" } }],
  status: { code: 2, message: "failed" },
  dropped: 3,
  flags: 257,
};
const request = traceRequest([
  {
    resource: { "service.name": "api", "service.version": "1.4.2", "host.name": "web-1", zone: "a" },
    resourceSchemaUrl: "https://opentelemetry.io/schemas/1.26.0",
    scope: { name: "http", version: "2.0", attributes: { x: "y" } },
    items: [sent],
  },
]);
const lines = encodeLogLines({ service: "api", attributes: { "log.file.path": "/var/log/api.log" }, hostName: "web-1" }, [
  {
    body: "ERROR größe 7 password=hunter2",
    timeUs: receivedMs * 1_000 - 5,
    observedUs: receivedMs * 1_000,
    severityNumber: 17,
    severityText: "ERROR",
    attributes: { code: "7" },
    traceId: "0af7651916cd43dd8448eb211c80319c",
    spanId: "b7ad6b7169203331",
  },
]);

let directory: string;
let engine: Engine;
beforeAll(async () => {
  directory = mkdtempSync(join(tmpdir(), "coral-otlp-golden-"));
  engine = await openEngine({ dataDirectories: [directory], memoryLimitBytes: 256 * 1024 ** 2, threads: 1, log: silentLogger });
});
afterAll(async () => {
  await engine.close();
  rmSync(directory, { recursive: true, force: true });
});

function goldenFile(signal: "span" | "log"): string {
  const file = join(directory, `${signal}.wal`);
  writeFileSync(file, Buffer.from(golden[signal].writeAhead, "base64"));
  return file;
}

/** Requests in protobuf never reach the pool. */
const noPool = {} as DecodePool;

async function appended(): Promise<[signal: string, record: WriteAheadRecord][]> {
  const records: [string, WriteAheadRecord][] = [];
  const receiver = new OtlpReceiver({
    segments: { append: async (signal, record) => void records.push([signal, record]) },
    pool: noPool,
    maxBodyBytes: 1024 ** 2,
    budget: new ByteBudget(1024 ** 2),
    clock: { wallMs: () => receivedMs, monotonicMs: () => 0 },
    log: silentLogger,
  });
  await receiver.accept({ signal: "traces", format: "protobuf", encoding: "identity", body: request });
  return records;
}

async function sealedRows(signal: "span" | "log"): Promise<Record<string, unknown>[]> {
  const temporaryFile = join(directory, `${signal}.parquet`);
  const reports: DecodeReport[] = [];
  const job = { signal, number: 1, writeAheadFile: goldenFile(signal), rows: 1, temporaryFile };
  runDecodeWorker({
    onOrder: (listener) => listener({ id: 1, work: { kind: "seal", job } }),
    report: (report) => void reports.push(report),
  });
  expect(reports).toMatchObject([{ id: 1, result: { sealed: { rows: 1 } } }]);
  await using database = await engine.attach(signal, join(directory, `${signal}.duckdb`), []);
  const ids = signal === "span" ? ["span_id", "parent_span_id"] : ["span_id"];
  const shown = `* REPLACE (${ids.map((name) => `format('{:016x}', ${name}) AS ${name}`).join(", ")})`;
  const rows = await database.query(`SELECT to_json(r)::VARCHAR AS row FROM (SELECT ${shown} FROM read_parquet('${temporaryFile}')) r`);
  return rows.map(({ row }) => {
    const cells = Object.entries(JSON.parse(String(row)) as Record<string, unknown>);
    return Object.fromEntries(cells.filter(([, value]) => value !== null));
  });
}

describe("a write-ahead file of OTLP", () => {
  it("has span requests unchanged, with kind 0", async () => {
    const { records } = readWriteAhead(goldenFile("span"));
    expect(await appended()).toEqual([[span.name, { ...records[0], body: request }]]);
    expect(Buffer.from(records[0]?.body ?? []).toString("hex")).toBe(request.toString("hex"));
  });

  it("has log lines as an exporter's request, with kind 0", () => {
    const { records } = readWriteAhead(goldenFile("log"));
    expect(records).toMatchObject([{ kind: 0, rows: 1, receivedUs: receivedMs * 1_000 }]);
    expect(Buffer.from(lines).toString("hex")).toBe(Buffer.from(records[0]?.body ?? []).toString("hex"));
  });

  it.each([span.name, logRecord.name] as ("span" | "log")[])("of signal %s is decoded into golden rows", async (signal) => {
    expect(await sealedRows(signal)).toEqual(golden[signal].rows);
  });
});
