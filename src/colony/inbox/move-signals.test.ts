import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, it } from "vitest";
import { systemClock } from "../../base/clock.ts";
import { silentLogger } from "../../base/log.ts";
import { openAgentStore } from "../../store/agent/index.ts";
import { openColonyStore } from "../../store/colony/index.ts";
import { openEngine } from "../../store/engine/index.ts";
import { metricLoss, type Signal, signals } from "../../store/signals/index.ts";
import { moveRows } from "./move-signals.ts";

it("moveRows() moves each row once, in parts", async () => {
  const directory = mkdtempSync(join(tmpdir(), "coral-move-"));
  const engine = await openEngine({ dataDirectories: [directory], memoryLimitBytes: 128 * 1024 ** 2, threads: 1, log: silentLogger });
  const common = { maxBytes: 1024 ** 3, clock: systemClock, log: silentLogger };
  const from = await openAgentStore(engine, {
    ...common,
    name: "inbox",
    file: join(directory, "inbox.duckdb"),
    signals: [metricLoss as Signal],
  });
  const to = await openColonyStore(engine, { ...common, file: join(directory, "colony.duckdb"), signals });
  try {
    const move = () => moveRows(from, to, "colony", [metricLoss.name]);
    expect(await move()).toBe(false);
    const row = (count: number) => ({ at: Date.now() * 1_000, mono_ms: 1, service: "api", loss: "future", count, window_ms: 1 });
    for (let start = 0; start < 12_000; start += 4_000)
      await from.append(
        metricLoss,
        Array.from({ length: 4_000 }, (_, index) => row(start + index)),
      );
    expect(await move()).toBe(true);
    expect(await move()).toBe(false);
    expect(await move()).toBe(false);
    const [found] = await to.query('SELECT count(*) AS rows, count(DISTINCT "count") AS kinds, min(agent_id) AS agent FROM metric_loss');
    expect(found).toEqual({ rows: 12_000, kinds: 12_000, agent: "colony" });
  } finally {
    await from.close();
    await to.close();
    await engine.close();
    rmSync(directory, { recursive: true });
  }
});
