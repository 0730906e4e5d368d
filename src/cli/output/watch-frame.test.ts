import { expect, it } from "vitest";
import { plainStyle } from "./style.ts";
import { renderWatchFrame } from "./watch-frame.ts";

const page = (count: number): string => `HEADER\n${Array.from({ length: count }, (_, index) => `row ${index + 1}\n`).join("")}`;
const frame = (count: number, notes: string[] = [], columns = 80): string[] =>
  renderWatchFrame({ head: "coral query summary", page: page(count), notes, rows: 24, columns, style: plainStyle })
    .trimEnd()
    .split("\n");

it("keeps the header and the first rows, and counts the omitted lines", () => {
  const lines = frame(250);
  expect(lines).toHaveLength(23);
  expect(lines.slice(0, 4)).toEqual(["coral query summary", "", "HEADER", "row 1"]);
  expect(lines.at(-1)).toBe("… 231 more lines; omit --watch to see all");
  expect(lines.at(-2)).toBe("row 19");
});

it("shows a page that fits unchanged, with its notes", () => {
  expect(frame(2, ["web-1 is silent"])).toEqual(["coral query summary", "", "HEADER", "row 1", "row 2", "note: web-1 is silent"]);
});

it("bounds notes in number and length", () => {
  const lines = frame(250, ["x".repeat(500), "second", "third", "fourth"]);
  expect(lines).toHaveLength(23);
  expect(lines.slice(-3)).toEqual([`note: ${"x".repeat(73)}…`, "note: second", "… 2 more notes"]);
});

it("counts lines that the terminal wraps", () => {
  const wide = renderWatchFrame({
    head: "h",
    page: `${"y".repeat(200)}\n`.repeat(20),
    notes: [],
    rows: 24,
    columns: 80,
    style: plainStyle,
  });
  const rows = wide
    .trimEnd()
    .split("\n")
    .reduce((sum, line) => sum + Math.max(1, Math.ceil(line.length / 80)), 0);
  expect(rows).toBeLessThan(24);
});
