import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, it } from "vitest";
import type { Clock } from "../../base/clock.ts";
import { silentLogger } from "../../base/log.ts";
import type { PatternCount } from "../../otlp/index.ts";
import { type AgentStore, openAgentStore } from "../../store/agent/index.ts";
import { openEngine } from "../../store/engine/index.ts";
import { signals } from "../../store/signals/index.ts";
import { LogPatterns } from "./log-patterns.ts";

const minuteMs = 60_000;

class TestClock implements Clock {
  wall = Date.UTC(2026, 0, 1);
  wallMs = (): number => this.wall;
  monotonicMs = (): number => this.wall;
}

const count = (pattern: string, more: Partial<PatternCount> = {}): PatternCount => ({
  service: "api",
  pattern,
  template: `template ${pattern}`,
  severity: "error",
  records: 3,
  example: "example",
  replaces: [],
  ...more,
});

it("LogPatterns stores counts and events, and does not report known patterns as new after a restart", async () => {
  const directory = mkdtempSync(join(tmpdir(), "coral-patterns-"));
  const engine = await openEngine({ dataDirectories: [directory], memoryLimitBytes: 128 * 1024 ** 2, threads: 1, log: silentLogger });
  const clock = new TestClock();
  const open = (): Promise<AgentStore> =>
    openAgentStore(engine, { file: join(directory, "agent.duckdb"), signals, maxBytes: 64 * 1024 ** 2, clock, log: silentLogger });
  let store = await open();
  const first = new LogPatterns(clock);
  await first.load(store);
  first.intake.onPatterns([count("aaaaaaaaaaaa"), count("bbbbbbbbbbbb", { severity: "info" })]);
  await first.endWindow(store);
  await first.endWindow(store);
  expect(await store.query("SELECT pattern, severity, records, is_new, example FROM log_pattern ORDER BY pattern")).toEqual([
    { pattern: "aaaaaaaaaaaa", severity: "error", records: 3, is_new: false, example: "example" },
    { pattern: "bbbbbbbbbbbb", severity: "info", records: 3, is_new: false, example: "example" },
  ]);
  expect(await store.query("SELECT kind FROM agent_event")).toEqual([]);
  await store.close();

  clock.wall += 20 * minuteMs;
  store = await open();
  const second = new LogPatterns(clock);
  await second.load(store);
  expect(second.intake.knownTemplates()).toHaveLength(2);
  second.intake.onPatterns([count("aaaaaaaaaaaa"), count("cccccccccccc")]);
  await second.endWindow(store);
  const [row, ...others] = await store.query("SELECT kind, severity, service, message, details FROM agent_event");
  expect(others).toEqual([]);
  expect(row).toMatchObject({ kind: "log-pattern-new", severity: "warning", service: "api" });
  expect(JSON.parse(String(row?.["details"]))).toMatchObject({ pattern: "cccccccccccc", records: 3, level: "error" });
  await store.close();
  await engine.close();
  rmSync(directory, { recursive: true });
});
