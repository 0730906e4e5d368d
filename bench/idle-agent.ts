/** CPU and memory of an agent on an idle host, against a bare Node process with one DuckDB file open. */

import { type ChildProcess, fork } from "node:child_process";
import { once } from "node:events";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { CoralHome } from "./lib/coral-process.ts";
import { coresBetween, type ProcessUsage, usageOf } from "./lib/process-usage.ts";
import { figureOf, isSmall, report, single } from "./lib/report.ts";
import { spreadOf } from "./lib/spread.ts";

/** As long as the agent's sampling interval, so that each window holds one sample. */
const windowMs = 15_000;
const windows = isSmall ? 1 : 6;
/** The first samples, the join and V8's first collections are over by then. */
const settleMs = isSmall ? 5_000 : 20_000;
const mebibyte = 1024 ** 2;

if (process.argv[2] === "bare") await idleWithDuckDb(process.argv[3] ?? "");
else await measure();

/** The baseline process; never returns. */
async function idleWithDuckDb(file: string): Promise<void> {
  const { DuckDBInstance } = await import("@duckdb/node-api");
  const instance = await DuckDBInstance.create(file, { threads: "1", memory_limit: "64MiB" });
  const connection = await instance.connect();
  await connection.run("CREATE TABLE sample (seq UBIGINT, value DOUBLE)");
  await connection.run("INSERT INTO sample VALUES (1, 0.5)");
  process.send?.("ready");
  await sleep(2 ** 31 - 1);
}

async function measure(): Promise<void> {
  using home = new CoralHome();
  home.run("init", "bench");
  await using colony = await home.start(["colony", "start", "--port", "0"], () => home.run("colony", "status"));
  await using agent = await home.start(["agent", "start", "--port", "0"], () => home.run("agent", "status"));
  const bare = fork(process.argv[1] ?? "", ["bare", join(home.path, "bare.duckdb")], { env: home.env });
  await once(bare, "message");
  try {
    await sleep(settleMs);
    const agentUsage = [usageOf(agent.pid)];
    const bareUsage = [usageOf(pidOf(bare))];
    for (let window = 0; window < windows; window++) {
      await sleep(windowMs);
      agentUsage.push(usageOf(agent.pid));
      bareUsage.push(usageOf(pidOf(bare)));
    }
    agent.check();
    colony.check();
    reportUsage(agentUsage, bareUsage);
  } finally {
    bare.kill();
  }
}

function pidOf(child: ChildProcess): number {
  return child.pid ?? 0;
}

function reportUsage(agent: readonly ProcessUsage[], bare: readonly ProcessUsage[]): void {
  const rss = (usages: readonly ProcessUsage[]) => spreadOf(usages.slice(1).map(({ rssBytes }) => rssBytes / mebibyte));
  const peak = (usages: readonly ProcessUsage[]) => single((usages.at(-1)?.peakRssBytes ?? Number.NaN) / mebibyte);
  const busy = (usages: readonly ProcessUsage[]) =>
    usages.slice(1).map((usage, window) => coresBetween(usages[window] ?? usage, usage) * 100);
  report({
    name: "idle-agent",
    sizes: { windows, windowSeconds: windowMs / 1_000, settleSeconds: settleMs / 1_000 },
    figures: [
      figureOf("agent CPU, of one core", "%", busy(agent), { kind: "below", value: 1 }),
      figureOf("agent RSS", "MiB", rss(agent), { kind: "below", value: 120 }),
      figureOf("agent RSS, peak since its start", "MiB", peak(agent)),
      figureOf("bare Node with DuckDB: CPU", "%", busy(bare)),
      figureOf("bare Node with DuckDB: RSS", "MiB", rss(bare)),
      figureOf("bare Node with DuckDB: RSS, peak", "MiB", peak(bare)),
      figureOf(
        "agent RSS to bare",
        "×",
        spreadOf(agent.slice(1).map(({ rssBytes }, window) => rssBytes / (bare[window + 1]?.rssBytes ?? Number.NaN))),
      ),
    ],
  });
}
