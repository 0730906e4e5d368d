/**
 * Request-rate queries over a day of a thousand services, one row per service every ten seconds: one service and all of them, over
 * ten minutes to a day, each at the resolution that the store chooses. A fifth of the services and a quarter of the day with CORAL_BENCH_SMALL=1.
 */

import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Clock } from "../src/base/clock.ts";
import { silentLogger } from "../src/base/log.ts";
import { type ColonyStore, openColonyStore } from "../src/store/colony/index.ts";
import { openEngine } from "../src/store/engine/index.ts";
import { queryEdgeRed, queryRed, type RedQuery } from "../src/store/queries/index.ts";
import { signals } from "../src/store/signals/index.ts";
import { figureOf, isSmall, report, single } from "./lib/report.ts";

const services = isSmall ? 200 : 1_000;
const hours = isSmall ? 6 : 24;
const rounds = isSmall ? 5 : 15;
const mebibyte = 1024 ** 2;
const hourMs = 3_600_000;
const nowMs = Date.UTC(2026, 0, 2);
const clock: Clock = { wallMs: () => nowMs, monotonicMs: () => nowMs };

const keys = "service, role, protocol, is_tls, server_port, peer_address, peer, method, route, status, is_error";

/** Rows of one step, in the order of time: a server's histogram has about 20 buckets, its parts about 10. */
function rowsSql(stepS: number, fromS: number, toS: number): string {
  const counts = (buckets: number): string => `list_transform(range(${buckets}), lambda i: 1 + (hash(s, t, i) % 40)::UINTEGER)`;
  return `SELECT 1 AS source, 1 AS ingest, make_timestamp(${nowMs * 1_000}) AS stored_at, make_timestamp((${Math.floor(nowMs / 1_000)} - ${hours * 3_600} + t * ${stepS}) * 1000000) AS moment,
    'service-' || s AS service, 'server' AS role, 'http' AS protocol, false AS is_tls, 8080 AS server_port, '10.0.' || (s % 250) || '.7' AS peer_address,
    'service-' || ((s * 7) % ${services}) AS peer, 'GET' AS method, '/api/v1/things/{id}/' || (s % 7) AS route, CASE WHEN hash(s, t) % 50 = 0 THEN '500' ELSE '200' END AS status,
    hash(s, t) % 50 = 0 AS is_error, 400 AS requests, 40000 AS bytes, 800000 AS us, 120 + (hash(s) % 60)::BIGINT AS lo, ${counts(20)} AS d, ${counts(8)} AS q
    FROM range(${Math.ceil(fromS / stepS)}, ${Math.ceil(toS / stepS)}) a(t), range(${services}) b(s)`;
}

async function fill(store: ColonyStore): Promise<void> {
  await store.write(async (transaction) => {
    await transaction.run(
      `INSERT INTO internal.sources VALUES (1, 'agent-1', 'epoch', make_timestamp(${nowMs * 1_000}), make_timestamp(${nowMs * 1_000}), '{}', '{}')`,
    );
  });
  const sums = "requests_sum, request_bytes_sum, response_bytes_sum, duration_us_sum, queue_us_sum, queue_samples_sum";
  const histograms = "duration_lo, duration_counts, queue_lo, queue_counts, first_byte_lo, first_byte_counts";
  const values = "requests, bytes, bytes, us, us // 10, requests, lo, d, lo // 2 - 20, q, lo // 2, q";
  for (let hour = 0; hour < hours; hour++) {
    const rows = (stepS: number): string => rowsSql(stepS, hour * 3_600, (hour + 1) * 3_600);
    await store.write(async (transaction) => {
      for (const [name, stepS] of [
        ["red_1m", 60],
        ["red_10m", 600],
      ] as const) {
        await transaction.run(
          `INSERT INTO rollup.${name} (source, ingest, stored_at, bucket, ${keys}, sample_count, last_seq, ${sums}, ${histograms})
           SELECT source, ingest, stored_at, moment, ${keys}, 6, 0, ${values} FROM (${rows(stepS)})`,
        );
      }
      await transaction.run(
        `INSERT INTO raw.red (source, ingest, stored_at, seq, "time", mono_ms, ${keys}, window_ms, requests, request_bytes, response_bytes, duration_us, queue_us, queue_samples, ${histograms})
         SELECT source, ingest, stored_at, 0, moment, 0, ${keys}, 10000, ${values} FROM (${rows(10)})`,
      );
    });
  }
  await store.write((transaction) => transaction.run("UPDATE internal.rollup_progress SET ingest = 1"));
}

async function timeMs(work: () => Promise<unknown>): Promise<number[]> {
  await work();
  const taken: number[] = [];
  for (let round = 0; round < rounds; round++) {
    const startMs = performance.now();
    await work();
    taken.push(performance.now() - startMs);
  }
  return taken;
}

const directory = mkdtempSync(join(tmpdir(), "coral-bench-"));
try {
  await using engine = await openEngine({
    dataDirectories: [directory],
    memoryLimitBytes: 512 * mebibyte,
    threads: 2,
    tempDirectory: directory,
    log: silentLogger,
  });
  const file = join(directory, "colony.duckdb");
  const open = (): Promise<ColonyStore> =>
    openColonyStore(engine, { file, signals, maxBytes: 16 * 1024 * mebibyte, clock, log: silentLogger });
  const filling = await open();
  const startMs = performance.now();
  await fill(filling);
  const filledMs = performance.now() - startMs;
  const { fileBytes } = await filling.stats();
  await filling.close();
  await using store = await open();

  const ask = (more: Partial<RedQuery>) => () =>
    queryRed(store, { by: "service", sinceMs: hourMs, nowMs, maxPoints: 0, limit: 2_000, compare: false, ...more });
  const checked = await ask({ sinceMs: 2 * hourMs })();
  if (checked.total !== services || checked.rows.some((row) => row.p95Us === null)) throw new Error("Services are missing in the result");
  report({
    name: "red-queries",
    sizes: { services, hours, rounds },
    figures: [
      figureOf("one service, 1 h, raw, by route", "ms", await timeMs(ask({ service: "service-7", by: "route" }))),
      figureOf("one service, 4 h, 1m", "ms", await timeMs(ask({ service: "service-7", sinceMs: 4 * hourMs })), {
        kind: "below",
        value: 20,
      }),
      figureOf("one service, a day, 10m", "ms", await timeMs(ask({ service: "service-7", sinceMs: hours * hourMs })), {
        kind: "below",
        value: 20,
      }),
      figureOf(
        "one service, a day, 10m, 60 points",
        "ms",
        await timeMs(ask({ service: "service-7", sinceMs: hours * hourMs, maxPoints: 60 })),
      ),
      figureOf("all services, 10 min, raw, as `coral top` asks", "ms", await timeMs(ask({ sinceMs: hourMs / 6, maxPoints: 30 }))),
      figureOf("all services, 1 h, 1m", "ms", await timeMs(ask({})), { kind: "below", value: 100 }),
      figureOf("all services, 2 h, 1m", "ms", await timeMs(ask({ sinceMs: 2 * hourMs })), { kind: "below", value: 100 }),
      figureOf("all services, a day, 10m", "ms", await timeMs(ask({ sinceMs: hours * hourMs })), { kind: "below", value: 100 }),
      figureOf("all edges, 1 h", "ms", await timeMs(() => queryEdgeRed(store, { sinceMs: hourMs, nowMs }))),
      figureOf("file", "MiB", single(fileBytes / mebibyte)),
    ],
    notes: [`filled in ${Math.round(filledMs / 1_000)} s`],
  });
} finally {
  rmSync(directory, { recursive: true, force: true });
}
