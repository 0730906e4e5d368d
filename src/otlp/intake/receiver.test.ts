import { mkdtempSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { getPriority, tmpdir } from "node:os";
import { join } from "node:path";
import { deflateSync, gzipSync } from "node:zlib";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { ByteBudget } from "../../base/byte-budget.ts";
import { CoralError } from "../../base/errors.ts";
import { logRecord, type SegmentSignal, span } from "../../store/signals/index.ts";
import type { MetricPoint } from "../decode/metric-point.ts";
import { type Field, logRequest, metricRequest, type TestSpan, traceRequest } from "../decode/otlp-encoder.fixture.ts";
import { bundleWorker, openTestReceiver } from "./receiver.fixture.ts";
import type { OtlpRequest } from "./receiver.ts";
import { SamplingBudget } from "./sampling-budget.ts";
import { zstdRepeated, zstdStored } from "./zstd.fixture.ts";

const folder = mkdtempSync(join(tmpdir(), "coral-otlp-worker-"));
let workerFile = "";

beforeAll(async () => {
  workerFile = await bundleWorker(folder);
});
afterAll(() => rmSync(folder, { recursive: true, force: true }));

const spanOf = (index: number, over: Partial<TestSpan> = {}): TestSpan => ({
  traceId: (index + 1).toString(16).padStart(32, "0"),
  spanId: (index + 1).toString(16).padStart(16, "0"),
  name: `op-${index % 3}`,
  startNs: 1_700_000_000_000_000_000n + BigInt(index) * 1_000_000n,
  endNs: 1_700_000_000_000_000_000n + BigInt(index) * 1_000_000n + 5_000n,
  ...over,
});
const traces = (...items: TestSpan[]) => traceRequest([{ resource: { "service.name": "api" }, items }]);
const protobuf = (body: Uint8Array, over: Partial<OtlpRequest> = {}): OtlpRequest => ({
  signal: "traces",
  format: "protobuf",
  encoding: "identity",
  body,
  ...over,
});
const any = (signal: unknown) => signal as SegmentSignal;

describe("OtlpReceiver", () => {
  it("stores spans from protobuf, gzip, zstd and JSON with all their fields", async () => {
    await using test = await openTestReceiver({ workerFile });
    const json = {
      resourceSpans: [
        {
          scopeSpans: [
            { spans: [{ traceId: "ab".repeat(16), spanId: "cd".repeat(8), name: "json", startTimeUnixNano: "1700000000000000000" }] },
          ],
        },
      ],
    };
    const replies = await Promise.all([
      test.receiver.accept(protobuf(traces(spanOf(0, { attributes: { "http.route": "/a", own: [1n, "x"] } })))),
      test.receiver.accept(protobuf(gzipSync(traces(spanOf(1))), { encoding: "gzip" })),
      test.receiver.accept(protobuf(deflateSync(traces(spanOf(2))), { encoding: "deflate" })),
      test.receiver.accept(protobuf(zstdStored(traces(spanOf(3, { name: "op-3" }))), { encoding: "zstd" })),
      test.receiver.accept(protobuf(Buffer.from(JSON.stringify(json)), { format: "json" })),
    ]);
    expect(replies).toEqual(Array.from({ length: 5 }, () => ({ kind: "accepted", rejected: 0, message: "" })));
    const rows = await test.rows(any(span), "name, service, duration_ns, http_route, attributes, weight");
    expect(rows.map((row) => row["name"]).sort()).toEqual(["json", "op-0", "op-1", "op-2", "op-3"]);
    const [first] = rows.filter((row) => row["name"] === "op-0");
    expect(first).toMatchObject({ service: "api", http_route: "/a", attributes: '{"own":[1,"x"]}', weight: 1 });
    expect(Number(first?.["duration_ns"])).toBe(5_000);
    expect(test.receiver.counts.traces).toMatchObject({ requests: 5, rows: 5, rejected: 0, refused: 0 });
  });

  it("stores and forwards a retransmitted request once", async () => {
    const forwarded: OtlpRequest[] = [];
    await using test = await openTestReceiver({ workerFile, receiver: { forward: (request) => void forwarded.push(request) } });
    const body = traces(spanOf(0), spanOf(1));
    const again = { kind: "accepted", rejected: 0, message: "" };
    expect(await Promise.all([0, 1].map(() => test.receiver.accept(protobuf(Buffer.from(body)))))).toEqual([again, again]);
    expect(await test.receiver.accept(protobuf(gzipSync(body), { encoding: "gzip" }))).toEqual(again);
    expect(await test.rows(any(span), "name")).toHaveLength(2);
    expect(test.receiver.counts.traces).toMatchObject({ requests: 3, rows: 2, repeated: 2, refused: 0 });
    expect(forwarded).toHaveLength(1);
  });

  it("stores repeated records without a time each time: nothing distinguishes them", async () => {
    await using test = await openTestReceiver({ workerFile });
    const untimed = protobuf(logRequest([{ items: [{ body: "tick" }] }]), { signal: "logs" });
    const timed = protobuf(logRequest([{ items: [{ body: "tock", timeNs: 1_700_000_000_000_000_000n }] }]), { signal: "logs" });
    for (const request of [untimed, timed, untimed, timed]) await test.receiver.accept(request);
    const bodies = (await test.rows(any(logRecord), "body")).map((row) => row["body"]);
    expect(bodies.sort()).toEqual(["tick", "tick", "tock"]);
  });

  it("stores logs, and passes metric points on before it replies", async () => {
    const points: MetricPoint[] = [];
    await using test = await openTestReceiver({ workerFile, receiver: { storeMetrics: async (more) => void points.push(...more) } });
    const gauge: Field[] = [
      [1, "text", "cpu"],
      [5, "message", [[1, "message", [[4, "double", 0.5]]]]],
    ];
    await test.receiver.accept(protobuf(logRequest([{ items: [{ body: "hello", severity: 17 }] }]), { signal: "logs" }));
    expect(await test.receiver.accept(protobuf(metricRequest([{ items: [gauge] }]), { signal: "metrics" }))).toMatchObject({
      kind: "accepted",
      rejected: 0,
    });
    expect(points).toMatchObject([{ name: "cpu", value: 0.5 }]);
    expect(await test.rows(any(logRecord), "body, severity")).toEqual([{ body: "hello", severity: "error" }]);
  });

  it("rejects metrics when there is no metric store", async () => {
    await using test = await openTestReceiver({ workerFile });
    const gauge: Field[] = [
      [1, "text", "cpu"],
      [5, "message", [[1, "message", [[4, "double", 0.5]]]]],
    ];
    expect(await test.receiver.accept(protobuf(metricRequest([{ items: [gauge] }]), { signal: "metrics" }))).toEqual({
      kind: "accepted",
      rejected: 1,
      message: "this receiver does not store metrics",
    });
  });

  it("rejects spans that cannot be stored, and stores the others", async () => {
    await using test = await openTestReceiver({ workerFile });
    const reply = await test.receiver.accept(protobuf(traces(spanOf(0), spanOf(1, { traceId: "" }), spanOf(2))));
    expect(reply).toEqual({ kind: "accepted", rejected: 1, message: "a span has no valid trace id" });
    expect(await test.rows(any(span), "name")).toHaveLength(2);
    expect(test.receiver.counts.traces).toMatchObject({ rows: 2, rejected: 1 });
    // The reply has reported them, so query results count as complete.
    expect(test.store.losses()).toEqual([]);
  });

  it.each<[string, Partial<OtlpRequest>]>([
    ["bytes that are not a request", { body: Buffer.from("hello, world") }],
    ["invalid gzip", { body: Buffer.from("hello, world"), encoding: "gzip" }],
    ["invalid zstd", { body: Buffer.from("hello, world"), encoding: "zstd" }],
    ["invalid JSON", { body: Buffer.from("{]"), format: "json" }],
  ])("refuses %s as malformed", async (_name, over) => {
    await using test = await openTestReceiver({ workerFile });
    expect(await test.receiver.accept(protobuf(Buffer.alloc(0), over))).toMatchObject({ kind: "refused", reason: "malformed" });
    expect(test.receiver.counts.traces.refused).toBe(1);
  });

  it("refuses bodies that are too large, even if only when decompressed", async () => {
    await using test = await openTestReceiver({ workerFile, receiver: { maxBodyBytes: 10_000 } });
    const zeros = Buffer.alloc(3_000_000);
    for (const request of [
      protobuf(zeros),
      protobuf(gzipSync(zeros), { encoding: "gzip" }),
      protobuf(gzipSync(Buffer.alloc(20_000_000)), { encoding: "gzip" }),
      protobuf(zstdRepeated(1), { encoding: "zstd" }),
      protobuf(zstdRepeated(1_000), { encoding: "zstd" }),
    ]) {
      expect(await test.receiver.accept(request)).toMatchObject({ kind: "refused", reason: "too-large" });
    }
  });

  it("replies with a retry delay when too many bytes are in flight", async () => {
    await using test = await openTestReceiver({ workerFile, receiver: { budget: new ByteBudget(10) } });
    const packed = protobuf(gzipSync(traces(spanOf(0))), { encoding: "gzip" });
    expect(await test.receiver.accept(packed)).toMatchObject({ kind: "refused", reason: "busy", retryAfterMs: 1_000 });
  });

  it("replies with a retry delay when the store's queue is full", async () => {
    await using full = await openTestReceiver({ workerFile, segments: { maxWaitingBytes: 10 } });
    expect(await full.receiver.accept(protobuf(traces(spanOf(0))))).toMatchObject({ kind: "refused", reason: "busy" });
  });

  it("reports the reason when the disk is full", async () => {
    const broken = { append: async () => Promise.reject(new CoralError({ code: "unavailable", message: "Cannot write: no space left" })) };
    await using disk = await openTestReceiver({ workerFile, receiver: { segments: broken } });
    expect(await disk.receiver.accept(protobuf(traces(spanOf(0))))).toMatchObject({
      kind: "refused",
      reason: "unavailable",
      message: "Cannot write: no space left",
    });
  });

  it("samples under a budget: the stored spans still account for all of them", async () => {
    const sampling = new SamplingBudget({ bytesPerSecond: 1, slowMs: 500 });
    // The state after some time with too many spans.
    for (let second = 0; second < 60; second++) {
      const dropped = 10_000;
      sampling.report({ rows: 1, sizeBytes: 200, dropped, rescued: 0, wantedRows: 0, wanted: new Uint8Array(0) }, second * 1_000);
    }
    expect(sampling.share).toBeLessThan(0.01);
    await using test = await openTestReceiver({ workerFile, pool: { sampling } });
    const items = Array.from({ length: 500 }, (_, index) => spanOf(index, index % 50 === 0 ? { status: { code: 2 } } : {}));
    await test.receiver.accept(protobuf(traces(...items)));
    const rows = await test.rows(any(span), "status, weight");
    expect(rows.filter((row) => row["status"] === "error").map((row) => row["weight"])).toEqual(Array(10).fill(1));
    expect(rows.length).toBeLessThan(50);
    expect(test.pool.stats.sampledOut).toBe(500 - rows.length);
  });
});

describe("DecodePool", () => {
  it("restarts a worker that exited, without losing requests", async () => {
    // Exits at its first job, and works after its restart.
    const flaky = join(folder, "flaky.mjs");
    const marker = join(folder, `marker-${process.pid}`);
    writeFileSync(
      flaky,
      `import { existsSync, writeFileSync } from "node:fs";
       const first = !existsSync(${JSON.stringify(marker)});
       writeFileSync(${JSON.stringify(marker)}, "");
       if (first) { const { parentPort } = await import("node:worker_threads"); parentPort.on("message", () => process.exit(3)); }
       else await import(${JSON.stringify(workerFile)});`,
    );
    await using test = await openTestReceiver({ workerFile: flaky });
    await test.receiver.accept(protobuf(traces(spanOf(0), spanOf(1))));
    expect(await test.rows(any(span), "name")).toHaveLength(2);
    expect(test.pool.stats.restarts).toBe(1);
  });

  it("runs its worker at a lower priority than the receiver's thread", async () => {
    await using test = await openTestReceiver({ workerFile });
    const priorities = (): number[] => readdirSync("/proc/self/task").map((thread) => getPriority(Number(thread)));
    const before = priorities().filter((priority) => priority > getPriority()).length;
    await test.receiver.accept(protobuf(traces(spanOf(0))));
    expect((await test.rows(any(span))).length).toBe(1);
    expect(priorities().filter((priority) => priority > getPriority()).length).toBe(before + 1);
  });

  it("drops a request that crashes every worker, and counts it as lost", async () => {
    const deadly = join(folder, "deadly.mjs");
    writeFileSync(deadly, 'import { parentPort } from "node:worker_threads"; parentPort.on("message", () => process.exit(3));');
    await using test = await openTestReceiver({ workerFile: deadly });
    await test.receiver.accept(protobuf(traces(spanOf(0), spanOf(1))));
    expect(await test.rows(any(span), "name")).toHaveLength(0);
    expect(test.pool.stats.restarts).toBe(3);
    expect(test.store.losses()).toMatchObject([{ signal: "span", reason: "undecodable", rows: 2 }]);
  });

  it("decodes requests that a former process left in its write-ahead file", async () => {
    const directory = mkdtempSync(join(tmpdir(), "coral-otlp-"));
    try {
      {
        await using first = await openTestReceiver({
          workerFile,
          directory,
          segments: { seal: () => Promise.reject(Object.assign(new Error("full"), { code: "ENOSPC" })) },
        });
        await first.receiver.accept(protobuf(traces(spanOf(0), spanOf(1))));
      }
      await using second = await openTestReceiver({ workerFile, directory });
      expect(await second.rows(any(span), "name")).toHaveLength(2);
    } finally {
      rmSync(directory, { recursive: true, force: true });
    }
  });

  it("kills a worker that hangs", async () => {
    const hanging = join(folder, "hanging.mjs");
    writeFileSync(hanging, 'import { parentPort } from "node:worker_threads"; parentPort.on("message", () => { for (;;); });');
    await using test = await openTestReceiver({ workerFile: hanging, pool: { jobTimeoutMs: 100 } });
    await test.receiver.accept(protobuf(traces(spanOf(0))));
    expect(await test.rows(any(span), "name")).toHaveLength(0);
    expect(test.store.losses()).toMatchObject([{ reason: "undecodable", rows: 1 }]);
  });

  it("stops an idle worker, and starts it on demand", async () => {
    await using idle = await openTestReceiver({ workerFile, pool: { idleMs: 20 } });
    await idle.receiver.accept(protobuf(traces(spanOf(0))));
    expect(await idle.rows(any(span), "name")).toHaveLength(1);
    await expect.poll(() => idle.pool.stats.workers).toBe(0);
    await idle.receiver.accept(protobuf(traces(spanOf(1))));
    expect(await idle.rows(any(span), "name")).toHaveLength(2);
    expect(idle.pool.stats.restarts).toBe(0);
  });
});
