import { describe, expect, it } from "vitest";
import { boundResult } from "./bound-result.ts";

const completeness = { complete: true, notes: [] };
const lengthOf = (value: unknown): number => JSON.stringify(value).length;
const rows = (count: number, size = 100) => Array.from({ length: count }, (_, id) => ({ id, text: "x".repeat(size) }));

/** All pages of an unchanged result. */
function pagesOf(result: Record<string, unknown>): Record<string, unknown>[] {
  const pages: Record<string, unknown>[] = [];
  for (let cursor: string | undefined, round = 0; round < 1_000; round++) {
    const page = boundResult(result, { cursor, isRepeatable: true });
    pages.push(page.result);
    cursor = page.nextCursor;
    if (cursor === undefined) break;
  }
  return pages;
}

describe("boundResult()", () => {
  it("returns a short result unchanged", () => {
    const result = { services: rows(10), completeness };
    expect(boundResult(result, { isRepeatable: true })).toEqual({ result, cut: "" });
  });

  it("splits lists between items; the pages together contain every item once", () => {
    const services = rows(5_000);
    const edges = rows(700, 300);
    const pages = pagesOf({ total: 5_000, services, graph: { edges, few: [1, 2] }, completeness });
    for (const page of pages) {
      expect(lengthOf(page)).toBeLessThanOrEqual(24_000);
      expect(page).toMatchObject({ total: 5_000, completeness });
    }
    expect(pages.flatMap((page) => page["services"])).toEqual(services);
    expect(pages.flatMap((page) => (page["graph"] as { edges: unknown[] }).edges)).toEqual(edges);
    expect(pages.flatMap((page) => (page["graph"] as { few: unknown[] }).few)).toEqual([1, 2]);
  });

  it("names the truncated lists", () => {
    const { cut, nextCursor } = boundResult({ records: rows(1_000), completeness }, { isRepeatable: true });
    expect(cut).toMatch(/^this page has \d+ of 1000 records$/);
    expect(nextCursor).toMatch(/^records:\d+$/);
  });

  it("returns no cursor when the call must not be repeated", () => {
    const bounded = boundResult({ outcomes: rows(1_000), completeness }, { isRepeatable: false });
    expect(bounded).not.toHaveProperty("nextCursor");
    expect(lengthOf(bounded.result)).toBeLessThanOrEqual(24_000);
  });

  it("truncates strings of an oversized item, and continues after it", () => {
    const outcomes = [{ stdout: "x".repeat(300_000), lines: Array.from({ length: 10_000 }, () => "line") }, { stdout: "short" }];
    const pages = pagesOf({ outcomes, completeness });
    expect(pages).toHaveLength(2);
    expect(JSON.stringify(pages[0])).toContain("more characters)");
    expect(pages[1]).toMatchObject({ outcomes: [{ stdout: "short" }] });
    for (const page of pages) expect(lengthOf(page)).toBeLessThanOrEqual(24_000);
  });

  it("drops an oversized field that is not a list", () => {
    const { result, cut } = boundResult({ text: "x".repeat(90_000), other: 1, completeness }, { isRepeatable: true });
    expect(result).toEqual({ other: 1, completeness });
    expect(cut).toBe("text did not fit");
  });

  it.each(["x", "services", "services:-1", "services:1;2", "a:1,".repeat(500)])("rejects the cursor %s", (cursor) => {
    expect(() => boundResult({ services: [] }, { cursor, isRepeatable: true })).toThrow("use nextCursor of the previous page");
  });

  it("ends with an empty page when the list has shrunk meanwhile", () => {
    const { result, nextCursor, cut } = boundResult({ services: rows(3), completeness }, { cursor: "services:10", isRepeatable: true });
    expect(cut).toBe("the cursor is beyond the end of services: it is of another call, or the answer became shorter");
    expect(result).toMatchObject({ services: [] });
    expect(nextCursor).toBeUndefined();
  });
});
