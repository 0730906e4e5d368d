/**
 * The summary of a thousand services on a hundred hosts: query time with half of them observed by kernel hooks and half by spans (aggregates of more than
 * ten million spans), with a day of aggregates, host load, log patterns, events and deployments. A fifth of the size with CORAL_BENCH_SMALL=1.
 */

import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Clock } from "../src/base/clock.ts";
import { silentLogger } from "../src/base/log.ts";
import { type ColonyStore, openColonyStore } from "../src/store/colony/index.ts";
import { openEngine } from "../src/store/engine/index.ts";
import { BaselineCache, listDeployments, queryServiceDetails, querySummary } from "../src/store/queries/index.ts";
import { derivedSignals, signals } from "../src/store/signals/index.ts";
import { figureOf, isSmall, report, single } from "./lib/report.ts";
import { fillHosts, fillRequests } from "./lib/request-world.ts";

const services = isSmall ? 200 : 1_000;
const agents = isSmall ? 20 : 100;
const rounds = isSmall ? 10 : 40;
const mebibyte = 1024 ** 2;
const minuteMs = 60_000;
const nowMs = Date.UTC(2026, 0, 2, 12, 7, 13);
const world = { services, agents, nowMs };
const clock: Clock = { wallMs: () => nowMs, monotonicMs: () => nowMs };

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

const share95 = (values: readonly number[]): number => [...values].sort((a, b) => a - b)[Math.floor(values.length * 0.95)] ?? 0;

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
    openColonyStore(engine, { file, signals: [...signals, ...derivedSignals], maxBytes: 16 * 1024 * mebibyte, clock, log: silentLogger });
  const filling = await open();
  const startMs = performance.now();
  await fillHosts(filling, world);
  await fillRequests(filling, world, { hooks: [0, services / 2], spans: [services / 2, services] });
  const filledMs = performance.now() - startMs;
  await filling.close();
  await using store = await open();

  const memory = new BaselineCache();
  const all = (kept?: BaselineCache) => (): Promise<unknown> =>
    Promise.all([
      querySummary(store, { sinceMs: 5 * minuteMs, nowMs }, kept),
      listDeployments(store, { fromMs: nowMs - 86_400_000, limit: 1_000 }),
    ]);
  const one = async (service: string, source: "hooks" | "spans"): Promise<void> => {
    await querySummary(store, { sinceMs: 5 * minuteMs, nowMs, service }, memory);
    await queryServiceDetails(store, { service, source, sinceMs: 5 * minuteMs, nowMs });
  };
  const checked = await querySummary(store, { sinceMs: 5 * minuteMs, nowMs });
  const now = checked.requests.filter(({ period }) => period === "now");
  if (now.length !== services || checked.requests.length !== 3 * services || now.some(({ p95Us }) => p95Us === null)) {
    throw new Error(`Services are missing in the result: ${now.length} now, ${checked.requests.length} in all`);
  }
  const cpuBefore = process.cpuUsage();
  const allMs = await timeMs(all(memory));
  const cpu = process.cpuUsage(cpuBefore);
  const coldMs = await timeMs(all());
  const oneHooksMs = await timeMs(() => one("service-7", "hooks"));
  const oneSpansMs = await timeMs(() => one(`service-${services - 3}`, "spans"));
  report({
    name: "summary",
    sizes: { services, agents, rounds },
    figures: [
      figureOf("all services", "ms", allMs),
      figureOf("all services, p95", "ms", single(share95(allMs)), { kind: "below", value: 100 }),
      figureOf("all services, processor time", "ms", single((cpu.user + cpu.system) / 1_000 / (rounds + 1))),
      figureOf("all services, nothing remembered", "ms", coldMs),
      figureOf("one service in full, by hooks, p95", "ms", single(share95(oneHooksMs)), { kind: "below", value: 100 }),
      figureOf("one service in full, by spans, p95", "ms", single(share95(oneSpansMs)), { kind: "below", value: 100 }),
    ],
    notes: [`filled in ${Math.round(filledMs / 1_000)} s`],
  });
} finally {
  rmSync(directory, { recursive: true, force: true });
}
