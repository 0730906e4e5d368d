import { describe, expect, it } from "vitest";
import type { PatternCount } from "./annotate-logs.ts";
import { LogPatternBook } from "./log-pattern-book.ts";

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

/** Past the learning of `api`, with `usual` records of pattern "a" a minute. */
function learned(usual = 2): { book: LogPatternBook; nowMs: number } {
  const book = new LogPatternBook();
  let nowMs = 0;
  for (; nowMs <= 12 * minuteMs; nowMs += minuteMs) {
    book.add([count("a", usual)], nowMs);
    expect(book.endWindow(nowMs).events).toEqual([]);
  }
  return { book, nowMs };
}

describe("LogPatternBook", () => {
  it("counts by pattern and severity, and says nothing of a service that it is learning", () => {
    const book = new LogPatternBook();
    book.add([count("a", 2), count("a", 1, { severity: "error" }), count("b", 1)], 0);
    book.add([count("a", 3)], 1_000);
    const { rows, events } = book.endWindow(minuteMs);
    expect(events).toEqual([]);
    expect(rows.map(({ pattern, severity, records, isNew }) => [pattern, severity, records, isNew])).toEqual([
      ["a", "info", 5, false],
      ["a", "error", 1, false],
      ["b", "info", 1, false],
    ]);
    expect(book.endWindow(2 * minuteMs)).toEqual({ rows: [], events: [] });
  });

  it("tells of a pattern once, as worse when it is an error", () => {
    const { book, nowMs } = learned();
    book.add([count("n", 3, { severity: "error" })], nowMs);
    const { rows, events } = book.endWindow(nowMs);
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
    book.add([count("n", 3, { severity: "error" })], nowMs);
    expect(book.endWindow(nowMs + minuteMs)).toMatchObject({ rows: [{ isNew: false }], events: [] });
  });

  it("tells of many new patterns in few events, the worst first", () => {
    const { book, nowMs } = learned();
    book.add(
      Array.from({ length: 30 }, (_, index) => count(`n${index}`, 1, { severity: index === 17 ? "error" : "info" })),
      nowMs,
    );
    const { events } = book.endWindow(nowMs);
    expect(events).toHaveLength(5);
    expect(events[0]?.details).toMatchObject({ pattern: "n17" });
    expect(events[4]).toMatchObject({ message: "26 more new log patterns of api", details: { count: 26 } });
  });

  it("does not take a template for new that stands for known ones", () => {
    const { book, nowMs } = learned();
    book.add([count("merged", 4, { replaces: ["a"] })], nowMs);
    expect(book.endWindow(nowMs).events).toEqual([]);
  });

  it("knows what a former process has stored", () => {
    const book = new LogPatternBook();
    book.load([{ service: "api", pattern: "a", template: "template a", firstMs: -60 * minuteMs }]);
    book.add([count("a", 1), count("n", 1)], 0);
    expect(book.endWindow(0).events).toMatchObject([{ details: { pattern: "n" } }]);
    expect(book.templates()).toContainEqual({ service: "api", template: "template a" });
  });

  it("tells of a burst, then is quiet about it for a while", () => {
    const { book, nowMs } = learned(2);
    book.add([count("a", 50, { severity: "error" })], nowMs);
    expect(book.endWindow(nowMs).events).toMatchObject([
      { kind: "log-burst", severity: "warning", details: { records: 50, usually: 1.9 } },
    ]);
    book.add([count("a", 500, { severity: "error" })], nowMs + minuteMs);
    expect(book.endWindow(nowMs + minuteMs).events).toEqual([]);
  });

  it("calls no burst what is usual, small or harmless", () => {
    for (const [usual, records, severity] of [
      [40, 80, "error"],
      [2, 15, "error"],
      [2, 150, "info"],
    ] as const) {
      const { book, nowMs } = learned(usual);
      book.add([count("a", records, { severity })], nowMs);
      expect(book.endWindow(nowMs).events).toEqual([]);
    }
  });

  it("forgets the patterns not seen for longest when there are too many", () => {
    const book = new LogPatternBook({ maxPatterns: 10 });
    for (let index = 0; index < 25; index++) book.add([count(`p${index}`, 1)], 0);
    expect(book.templates()).toHaveLength(10);
    expect(book.forgotten).toBe(15);
  });
});
