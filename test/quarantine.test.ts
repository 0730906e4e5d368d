import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { describe, expect, it } from "vitest";
import { filesToRepeat, judge, noOutcome } from "../scripts/lib/test-verdict.mjs";

const root = fileURLToPath(new URL("..", import.meta.url));

const outcome = (failedFiles: Record<string, number> | null, passed = 10) => {
  const failed = Object.values(failedFiles ?? {}).reduce((total, tests) => total + tests, 0);
  return { passed, failed, skipped: 1, failedFiles };
};

const inQuarantine = (...paths: string[]) => paths.map((path) => ({ path, reason: "known" }));

describe("test/quarantine.json", () => {
  const entries = JSON.parse(readFileSync(join(root, "test/quarantine.json"), "utf8")) as { path: string; reason: string }[];

  it("lists each file once, with only a path and a reason", () => {
    expect(new Set(entries.map(({ path }) => path)).size).toBe(entries.length);
    for (const entry of entries) {
      expect(Object.keys(entry).sort()).toEqual(["path", "reason"]);
      expect(entry.reason.trim().length, entry.path).toBeGreaterThan(20);
    }
  });

  it("lists test files that exist", () => {
    for (const { path } of entries) {
      expect(path).toMatch(/^(src|test)\/.+\.test\.ts$/);
      expect(existsSync(join(root, path)), path).toBe(true);
    }
  });

  it("has at most a few entries", () => {
    expect(entries.length).toBeLessThanOrEqual(10);
  });
});

describe("filesToRepeat()", () => {
  it("repeats the failed files", () => {
    expect(filesToRepeat(outcome({ a: 1, b: 2, c: 0 }))).toEqual(["a", "b", "c"]);
  });

  it("repeats nothing when nothing failed", () => {
    expect(filesToRepeat(outcome({}))).toEqual([]);
  });

  it("repeats nothing when a failure belongs to no file", () => {
    expect(filesToRepeat(outcome(null))).toEqual([]);
  });

  it("repeats at most six files", () => {
    const six = { a: 1, b: 1, c: 1, d: 1, e: 1, f: 1 };
    expect(filesToRepeat(outcome(six))).toHaveLength(6);
    expect(filesToRepeat(outcome({ ...six, g: 1 }))).toEqual([]);
  });
});

describe("judge()", () => {
  it("passes when nothing failed", () => {
    expect(judge(outcome({}), null, [])).toMatchObject({ isGreen: true, passed: 10, failed: 0, skipped: 1 });
  });

  it("fails a file that passes only when repeated", () => {
    const verdict = judge(outcome({ a: 2 }), outcome({}), inQuarantine("b"));
    expect(verdict).toMatchObject({ isGreen: false, passed: 10, failed: 2, flaky: ["a"], quarantined: [], failedTwice: [] });
  });

  it("tolerates a file in quarantine that passes when repeated", () => {
    const verdict = judge(outcome({ a: 2 }), outcome({}), inQuarantine("a"));
    expect(verdict).toMatchObject({ isGreen: true, passed: 12, failed: 0, flaky: [], quarantined: ["a"], failedTwice: [] });
  });

  it("fails a file in quarantine that fails twice", () => {
    const verdict = judge(outcome({ a: 2 }), outcome({ a: 1 }), inQuarantine("a"));
    expect(verdict).toMatchObject({ isGreen: false, failed: 2, flaky: [], quarantined: [], failedTwice: ["a"] });
  });

  it("tolerates only what is in quarantine when several files passed on repeat", () => {
    const verdict = judge(outcome({ a: 1, b: 3 }), outcome({}), inQuarantine("a"));
    expect(verdict).toMatchObject({ isGreen: false, passed: 11, failed: 3, flaky: ["b"], quarantined: ["a"] });
  });

  it("fails a file that failed outside of its tests, unless it is in quarantine", () => {
    expect(judge(outcome({ a: 0 }), outcome({}), [])).toMatchObject({ isGreen: false, flaky: ["a"] });
    expect(judge(outcome({ a: 0 }), outcome({}), inQuarantine("a"))).toMatchObject({ isGreen: true, quarantined: ["a"] });
  });

  it("fails when the failed files were not repeated", () => {
    expect(judge(outcome({ a: 1 }), null, inQuarantine("a"))).toMatchObject({ isGreen: false, failed: 1 });
  });

  it("fails when the run or its repeat ended without a result", () => {
    expect(judge(noOutcome, null, [])).toMatchObject({ isGreen: false });
    expect(judge(outcome({ a: 1 }), noOutcome, inQuarantine("a"))).toMatchObject({ isGreen: false, failed: 1, quarantined: [] });
  });
});
