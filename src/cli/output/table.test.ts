import { describe, expect, it } from "vitest";
import { cpuMsOf } from "../../base/cpu-time.fixture.ts";
import { renderCsv } from "./csv.ts";
import { colourStyle } from "./style.ts";
import { type Column, renderTable, tableOf } from "./table.ts";
import { textWidth } from "./text-width.ts";

interface Row {
  name: string;
  size: number | null;
  note: string;
}

const columns: readonly Column<Row>[] = [
  { title: "NAME", key: "name", cell: (row) => row.name },
  { title: "SIZE", key: "size", cell: (row) => row.size },
  { title: "NOTE", key: "note", cell: (row) => ({ text: row.note, style: "red" }) },
  { title: "MORE", key: "more", cell: () => "x", wide: true },
];

const rows: Row[] = [
  { name: "a", size: 5, note: "first" },
  { name: "longer", size: 1_000, note: "" },
  { name: "日本", size: null, note: "third" },
];

describe("renderTable()", () => {
  it("aligns text left and numbers right, and prints absent values as a dash", () => {
    expect(renderTable(tableOf(rows, columns))).toBe(
      [
        "NAME    SIZE  NOTE", //
        "a          5  first",
        "longer  1000  -",
        "日本       -  third",
        "",
      ].join("\n"),
    );
  });

  it("shows wide columns with -o wide", () => {
    expect(renderTable(tableOf(rows.slice(0, 1), columns), { wide: true })).toBe("NAME  SIZE  NOTE   MORE\na        5  first  x\n");
  });

  it("prints an empty string without rows", () => {
    expect(renderTable(tableOf([] as Row[], columns))).toBe("");
  });

  it("escapes hostile values", () => {
    const text = renderTable(tableOf([{ name: "\u001b]0;owned\u0007\n\u202e", size: 1, note: "\r\nfake  row" }], columns), { width: 200 });
    expect(text.split("\n")).toHaveLength(3);
    expect(text.replaceAll("\n", "")).not.toMatch(/[\p{Cc}\u202e]/u);
  });

  it("truncates the widest text first, never numbers and never below the title", () => {
    const wideRows = [{ name: "n".repeat(60), size: 123_456_789, note: "m".repeat(30) }];
    for (const width of [100, 60, 40, 30]) {
      const lines = renderTable(tableOf(wideRows, columns), { width }).trimEnd().split("\n");
      expect(Math.max(...lines.map(textWidth))).toBeLessThanOrEqual(Math.max(width, 29));
      expect(lines[1]).toContain("123456789");
    }
    expect(renderTable(tableOf(wideRows, columns), { width: 60 })).toContain("m".repeat(15));
    expect(renderTable(tableOf(wideRows, columns))).toContain("n".repeat(60));
  });

  it("styles the text but not the padding", () => {
    const text = renderTable(tableOf(rows.slice(0, 1), columns), { style: colourStyle, wide: true });
    expect(text).toContain("\u001b[31mfirst\u001b[39m  x");
  });

  it("renders 10,000 rows in reasonable time", () => {
    const many = Array.from({ length: 10_000 }, (_, index) => ({ name: `process-${index}`, size: index, note: "日本 note" }));
    let lines: string[] = [];
    const cpuMs = cpuMsOf(() => {
      lines = renderTable(tableOf(many, columns), { width: 80 }).split("\n");
    });
    expect(lines).toHaveLength(10_002);
    expect(cpuMs).toBeLessThan(2_000);
  });

  it("treats values with units as numbers, and versions as text", () => {
    const cells = (value: string): string =>
      renderTable(tableOf([value, "x-long-one"].slice(0, 1), [{ title: "A-LONG-TITLE", key: "a", cell: (text) => text }]));
    for (const value of ["5", "1.5", "<0.1%", "97%", "1.00 GiB", "12 ms", "3.2 MiB/s", "-4"]) expect(cells(value)).toContain(` ${value}\n`);
    for (const value of ["0.1.0", "web-1", "1,2"]) expect(cells(value)).toContain(`\n${value}\n`);
  });
});

describe("renderCsv()", () => {
  it("has every column under its JSON name, quoted as in RFC 4180", () => {
    const table = tableOf([{ name: 'say "hi", now', size: null, note: "two\nlines" }], columns);
    expect(renderCsv(table)).toBe('name,size,note,more\n"say ""hi"", now",,"two\nlines",x\n');
  });

  it("prints only the header without rows, and nothing on later rounds", () => {
    expect(renderCsv(tableOf([] as Row[], columns))).toBe("name,size,note,more\n");
    expect(renderCsv(tableOf([] as Row[], columns), false)).toBe("");
  });

  it("does not pad every line to one very long cell when nothing is truncated", () => {
    const long = "x".repeat(4_000);
    const text = renderTable(tableOf([...rows, { name: long, size: 7, note: "fourth" }], columns));
    const lines = text.trimEnd().split("\n");
    expect(lines.at(-1)).toBe(`${long}     7  fourth`);
    for (const line of lines.slice(0, -1)) expect(line.length).toBeLessThan(100);
  });

  describe("with a last column that wraps", () => {
    const reasons: Column<Row>[] = [columns[0] as Column<Row>, { title: "WHY", key: "note", cell: (row) => row.note, wraps: true }];
    const why = "POST /charge fails 34% of 86 requests, was 0%; worse since 1.4.2 was deployed 16m ago";

    it("wraps a long text beside the other columns when there is enough width", () => {
      const text = renderTable(tableOf([{ name: "payments", size: null, note: why }, ...rows], reasons), { width: 60 });
      expect(text.split("\n").slice(0, 3)).toEqual([
        "NAME      WHY",
        "payments  POST /charge fails 34% of 86 requests, was 0%;",
        "          worse since 1.4.2 was deployed 16m ago",
      ]);
    });

    it("wraps it below its row on a narrow terminal, without truncation", () => {
      const name = "a-service-with-a-long-name";
      const text = renderTable(tableOf([{ name, size: null, note: why }, ...rows], reasons), { width: 50 });
      expect(text.split("\n").slice(0, 5)).toEqual([
        "NAME",
        name,
        "    POST /charge fails 34% of 86 requests, was 0%;",
        "    worse since 1.4.2 was deployed 16m ago",
        "a",
      ]);
    });

    it("stays on one line elsewhere", () => {
      expect(renderTable(tableOf([{ name: "payments", size: null, note: why }], reasons))).toContain(why);
    });
  });
});
