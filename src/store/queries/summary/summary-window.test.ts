import { expect, it } from "vitest";
import { silentLogger } from "../../../base/log.ts";
import { openColonyStore } from "../../colony/colony-store.ts";
import { derivedSignals, signals } from "../../signals/signal-list.ts";
import { TestClock, temporaryFolder, testEngine } from "../../store.fixture.ts";
import { summaryRanges } from "./summary-window.ts";

const secondMs = 1_000;
const minuteMs = 60 * secondMs;

it("summaryRanges() covers the time since the first row, not since the start of its roll-up bucket", async () => {
  using folder = temporaryFolder();
  await using engine = await testEngine(folder.path);
  const clock = new TestClock();
  await using store = await openColonyStore(engine, {
    ...{ file: folder.file("colony.duckdb"), signals: [...signals, ...derivedSignals], maxBytes: 1024 ** 3, clock, log: silentLogger },
  });
  // Spans over 40 s in the middle of a ten-minute bucket.
  const firstMs = Math.floor(clock.wall / (10 * minuteMs)) * 10 * minuteMs + 5 * minuteMs + 10 * secondMs;
  await store.write(async (transaction) => {
    for (let window = 0; window < 4; window++) {
      const at = `make_timestamp(${(firstMs + window * 10 * secondMs) * 1_000})`;
      await transaction.run(
        `INSERT INTO raw.span_red (source, ingest, stored_at, seq, "time", mono_ms, service, role, protocol, method, route, status, is_error, version, window_ms, spans, requests, duration_us, duration_lo, duration_counts)
         VALUES (1, 1, ${at}, ${window}, ${at}, 0, 'api', 'server', 'http', 'GET', '/', '200', false, '1', 10000, 5, 5, 1000, 100, [5])`,
      );
    }
    for (const [step, stepMs] of [
      ["1m", minuteMs],
      ["10m", 10 * minuteMs],
    ] as const) {
      const bucket = `make_timestamp(${Math.floor(firstMs / stepMs) * stepMs * 1_000})`;
      await transaction.run(`INSERT INTO rollup.span_red_${step} (source, bucket, service) VALUES (1, ${bucket}, 'api')`);
    }
  });
  const nowMs = firstMs + 50 * secondMs;
  for (const sinceMs of [minuteMs, 10 * minuteMs, 30 * minuteMs]) {
    expect((await summaryRanges(store, "spans", { sinceMs, nowMs })).now.coveredMs, String(sinceMs)).toBe(40 * secondMs);
  }
});

it("summaryRanges() excludes spans far in the future", async () => {
  using folder = temporaryFolder();
  await using engine = await testEngine(folder.path);
  const clock = new TestClock();
  await using store = await openColonyStore(engine, {
    ...{ file: folder.file("colony.duckdb"), signals: [...signals, ...derivedSignals], maxBytes: 1024 ** 3, clock, log: silentLogger },
  });
  const { now } = await summaryRanges(store, "spans", { sinceMs: 5 * minuteMs, nowMs: clock.wall });
  expect(now.endMs).toBe(clock.wall + 60 * minuteMs);
});
