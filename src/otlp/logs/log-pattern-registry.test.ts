import { describe, expect, it } from "vitest";
import type { PatternCount } from "./annotate-logs.ts";
import { LogPatternRegistry } from "./log-pattern-registry.ts";

const minuteMs = 60_000;
const count = (pattern: string, records: number, more: Partial<PatternCount> = {}): PatternCount => ({
  service: "api",
  pattern,
  template: `template ${pattern}`,
  severity: "info",
  records,
  example: `example ${pattern}`,
  replaces: [],
  ...more,
});

/** A registry that has learned `api`, with `usual` records of pattern "a" per minute. */
function learned(usual = 2): { registry: LogPatternRegistry; nowMs: number } {
  const registry = new LogPatternRegistry();
  let nowMs = 0;
  for (; nowMs <= 12 * minuteMs; nowMs += minuteMs) {
    registry.add([count("a", usual)], nowMs);
    expect(registry.endWindow(nowMs).events).toEqual([]);
  }
  return { registry, nowMs };
}

describe("LogPatternRegistry", () => {
  it("counts by pattern and severity, and emits no events while it learns a service", () => {
    const registry = new LogPatternRegistry();
    registry.add([count("a", 2), count("a", 1, { severity: "error" }), count("b", 1)], 0);
    registry.add([count("a", 3)], 1_000);
    const { rows, events } = registry.endWindow(minuteMs);
    expect(events).toEqual([]);
    expect(rows.map(({ pattern, severity, records, isNew }) => [pattern, severity, records, isNew])).toEqual([
      ["a", "info", 5, false],
      ["a", "error", 1, false],
      ["b", "info", 1, false],
    ]);
    expect(registry.endWindow(2 * minuteMs)).toEqual({ rows: [], events: [] });
  });

  it("reports a new pattern once, with a higher severity when it is an error", () => {
    const { registry, nowMs } = learned();
    registry.add([count("n", 3, { severity: "error" })], nowMs);
    const { rows, events } = registry.endWindow(nowMs);
    expect(rows).toMatchObject([{ pattern: "n", isNew: true }]);
    expect(events).toMatchObject([
      {
        kind: "log-pattern-new",
        severity: "warning",
        service: "api",
        message: "new error log pattern of api: template n",
        details: { pattern: "n", records: 3 },
      },
    ]);
    registry.add([count("n", 3, { severity: "error" })], nowMs);
    expect(registry.endWindow(nowMs + minuteMs)).toMatchObject({ rows: [{ isNew: false }], events: [] });
  });

  it("reports many new patterns in few events, worst first", () => {
    const { registry, nowMs } = learned();
    registry.add(
      Array.from({ length: 30 }, (_, index) => count(`n${index}`, 1, { severity: index === 17 ? "error" : "info" })),
      nowMs,
    );
    const { events } = registry.endWindow(nowMs);
    expect(events).toHaveLength(5);
    expect(events[0]?.details).toMatchObject({ pattern: "n17" });
    expect(events[4]).toMatchObject({ message: "26 more new log patterns of api", details: { count: 26 } });
  });

  it("does not report a template as new if it replaces known ones", () => {
    const { registry, nowMs } = learned();
    registry.add([count("merged", 4, { replaces: ["a"] })], nowMs);
    expect(registry.endWindow(nowMs).events).toEqual([]);
  });

  it("loads patterns that a former process stored", () => {
    const registry = new LogPatternRegistry();
    registry.load([{ service: "api", pattern: "a", template: "template a", firstMs: -60 * minuteMs }]);
    registry.add([count("a", 1), count("n", 1)], 0);
    expect(registry.endWindow(0).events).toMatchObject([{ details: { pattern: "n" } }]);
    expect(registry.templates()).toContainEqual({ service: "api", template: "template a" });
  });

  it("reports a burst, then stays silent about it for a while", () => {
    const { registry, nowMs } = learned(2);
    registry.add([count("a", 50, { severity: "error" })], nowMs);
    expect(registry.endWindow(nowMs).events).toMatchObject([
      { kind: "log-burst", severity: "warning", details: { records: 50, usually: 1.9 } },
    ]);
    registry.add([count("a", 500, { severity: "error" })], nowMs + minuteMs);
    expect(registry.endWindow(nowMs + minuteMs).events).toEqual([]);
  });

  it("does not report usual, small or harmless counts as a burst", () => {
    for (const [usual, records, severity] of [
      [40, 80, "error"],
      [2, 15, "error"],
      [2, 150, "info"],
    ] as const) {
      const { registry, nowMs } = learned(usual);
      registry.add([count("a", records, { severity })], nowMs);
      expect(registry.endWindow(nowMs).events).toEqual([]);
    }
  });

  it("evicts the least recently seen patterns", () => {
    const registry = new LogPatternRegistry({ maxPatterns: 10 });
    for (let index = 0; index < 25; index++) registry.add([count(`p${index}`, 1)], 0);
    expect(registry.templates()).toHaveLength(10);
    expect(registry.forgotten).toBe(15);
  });
});
