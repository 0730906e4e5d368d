import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, it } from "vitest";
import { systemClock } from "../../base/clock.ts";
import { silentLogger } from "../../base/log.ts";
import { openColonyStore } from "../../store/colony/index.ts";
import { openEngine } from "../../store/engine/index.ts";
import { signals } from "../../store/signals/index.ts";
import { createTelemetryBackend } from "./telemetry-backend.ts";

it("promql() ends close to now, even with long steps", async () => {
  const directory = mkdtempSync(join(tmpdir(), "coral-telemetry-backend-"));
  try {
    await using engine = await openEngine({
      dataDirectories: [directory],
      memoryLimitBytes: 256 * 1024 ** 2,
      threads: 1,
      log: silentLogger,
    });
    const file = join(directory, "colony.duckdb");
    await using store = await openColonyStore(engine, { file, signals, maxBytes: 1024 ** 3, clock: systemClock, log: silentLogger });
    const nowMs = Date.parse("2026-02-03T04:06:36.789Z");
    const backend = createTelemetryBackend({ store, clock: { ...systemClock, wallMs: () => nowMs } });
    const request = { expression: "time()", sinceMs: 3_600_000, stepMs: 125_000, limit: 5 };
    const { rows, startMs, stepMs } = await backend.promql(request, { signal: new AbortController().signal });
    const times = rows[0]?.points ?? [];
    expect(times.at(-1)).toBe(Date.parse("2026-02-03T04:06:30Z") / 1_000);
    expect(startMs + (times.length - 1) * stepMs).toBe(Date.parse("2026-02-03T04:06:30Z"));
  } finally {
    rmSync(directory, { recursive: true, force: true });
  }
});
