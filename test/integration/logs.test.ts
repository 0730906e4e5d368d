/** Log files through the real worker into a real agent's store, and queries about them: rotation, a restart, patterns, secrets. */

import { appendFileSync, mkdtempSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect, it } from "vitest";
import { LogPatterns } from "../../src/agent/otlp/log-patterns.ts";
import { LogTails } from "../../src/agent/otlp/log-tails.ts";
import { systemClock } from "../../src/base/clock.ts";
import { silentLogger } from "../../src/base/log.ts";
import { bundleWorker, openTestReceiver, type TestReceiver } from "../../src/otlp/intake/receiver.fixture.ts";
import { type LogsQuery, queryLogPatterns, queryLogs } from "../../src/store/queries/index.ts";
import { signals } from "../../src/store/signals/index.ts";

const traceId = "4bf92f3577b34da6a3ce929d0e0e4736";
let directory: string;
let workerFile: string;
beforeAll(async () => {
  directory = mkdtempSync(join(tmpdir(), "coral-logs-"));
  workerFile = await bundleWorker(directory);
});
afterAll(() => rmSync(directory, { recursive: true }));

const openTails = (test: TestReceiver, file: string): LogTails =>
  new LogTails({
    services: () => [{ service: "api", files: [file], units: [], fromStart: true }],
    segments: () => test.segments,
    file: join(directory, "positions.json"),
    owner: undefined,
    hostName: "web-1",
    clock: systemClock,
    log: silentLogger,
  });

const query = (more: Partial<LogsQuery> = {}): LogsQuery => ({ sinceMs: 3_600_000, nowMs: Date.now(), limit: 1_000, ...more });

it("every line of a rotated file is stored once, with severity, trace and pattern, and without secrets", async () => {
  const file = join(directory, "app.log");
  const patterns = new LogPatterns(systemClock);
  await using test = await openTestReceiver({ workerFile, pool: patterns.intake, signals });
  const line = (index: number): string => `INFO request ${index} of user-${index} took ${index * 3}ms`;
  const error = `{"level":"error","msg":"login failed","trace_id":"${traceId}","password":"hunter2"}`;
  writeFileSync(file, `${Array.from({ length: 500 }, (_, index) => line(index)).join("\n")}\n`);
  {
    await using tails = openTails(test, file);
    await tails.round();
  }
  appendFileSync(file, `${error}\nlast of the old file\n`);
  renameSync(file, `${file}.1`);
  writeFileSync(file, `${Array.from({ length: 500 }, (_, index) => line(500 + index)).join("\n")}\n`);
  {
    await using tails = openTails(test, file);
    await expect
      .poll(async () => {
        await tails.round();
        return tails.counts().lines;
      })
      .toBe(502);
  }
  await test.segments.flush();
  await patterns.endWindow(test.store);

  const { rows } = await queryLogs(test.store, query({ grep: "request" }));
  expect(new Set(rows.map(({ body }) => body)).size).toBe(1_000);
  expect(rows).toHaveLength(1_000);
  const failed = await queryLogs(test.store, query({ minSeverity: 17 }));
  expect(failed.rows).toMatchObject([{ service: "api", body: "login failed", severity: "error", traceId }]);
  expect(JSON.parse(failed.rows[0]?.attributes ?? "{}")).toMatchObject({ password: "***", "log.file.path": file });
  expect((await queryLogs(test.store, query({ traceId }))).rows).toHaveLength(1);

  const grouped = await queryLogPatterns(test.store, query());
  expect(grouped.rows.map(({ template, records }) => [template, records])).toEqual([
    ["INFO request <num> of user-<num> took <num>ms", 1_000],
    expect.any(Array),
    expect.any(Array),
  ]);
  const [first] = grouped.rows;
  expect((await queryLogs(test.store, query({ pattern: first?.pattern ?? "" }))).rows).toHaveLength(1_000);
  expect((await queryLogs(test.store, query({ pattern: "user-<num> TOOK" }))).rows).toHaveLength(1_000);
});
