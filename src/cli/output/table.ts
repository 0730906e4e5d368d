/** Aligned tables for people. Cells are escaped here, so that no value can break the terminal. */

import { escapeText } from "../../base/escape-text.ts";
import { plainStyle, type Style, type StyleName } from "./style.ts";
import { padText, textWidth, truncateText } from "./text-width.ts";

export type CellValue = string | number | boolean | null | undefined;
/** `null` and `undefined` print as a dash. */
export type Cell = CellValue | { text: CellValue; style?: StyleName };

export interface Column<Row> {
  /** Upper case by convention. */
  title: string;
  /** Name in CSV, the same as in JSON. */
  key: string;
  /** What people see. */
  cell: (row: Row) => Cell;
  /** The value in CSV; default: the text of the cell. */
  raw?: (row: Row) => CellValue;
  /** Default: right when every value is a number, absent ones aside. */
  align?: "left" | "right";
  /** Only with -o wide and -o csv. */
  wide?: boolean;
}

/** Rows with their columns, types erased: what the renderers take. */
export interface Table {
  columns: { title: string; key: string; align: "left" | "right"; wide: boolean }[];
  cells: { text: string; style: StyleName | undefined }[][];
  raw: CellValue[][];
}

export function tableOf<Row>(rows: readonly Row[], columns: readonly Column<Row>[]): Table {
  const values = rows.map((row) => columns.map((column) => column.cell(row)));
  const columnOf = (column: Column<Row>, index: number): Table["columns"][number] => ({
    title: column.title,
    key: column.key,
    align: column.align ?? (isNumericColumn(values, index) ? "right" : "left"),
    wide: column.wide ?? false,
  });
  return {
    columns: columns.map(columnOf),
    cells: values.map((row) =>
      row.map((cell) => ({ text: escapeText(textOf(valueOf(cell))), style: typeof cell === "object" ? cell?.style : undefined })),
    ),
    raw: rows.map((row, index) => columns.map((column, place) => (column.raw ? column.raw(row) : valueOf(values[index]?.[place])))),
  };
}

export interface RenderTableOptions {
  /** With the columns that are marked wide. */
  wide?: boolean;
  /** Cells of the terminal; undefined when the output is not one: nothing is cut then. */
  width?: number | undefined;
  style?: Style;
  /** Default true. */
  header?: boolean;
  /** Character of a line drawn under the header, as wide as the table. */
  rule?: string;
  /** Before each line, such as two spaces inside a page. */
  indent?: string;
}

const gap = "  ";
/** A text column is not cut below this, nor below its title. */
const leastCutWidth = 8;

/** Lines with a newline each; empty when there are no rows. */
export function renderTable(table: Table, options: RenderTableOptions = {}): string {
  if (table.cells.length === 0) return "";
  const { style = plainStyle, indent = "", header = true, rule } = options;
  const shown = table.columns.map((column, index) => ({ ...column, index })).filter((column) => options.wide || !column.wide);
  const widths = shown.map((column) => {
    let width = header ? textWidth(column.title) : 0;
    for (const row of table.cells) width = Math.max(width, textWidth(row[column.index]?.text ?? ""));
    return width;
  });
  if (options.width !== undefined) {
    const fixed = indent.length + gap.length * (shown.length - 1);
    const floors = shown.map((column) =>
      column.align === "right" ? Number.POSITIVE_INFINITY : Math.max(leastCutWidth, textWidth(column.title)),
    );
    shrink(widths, floors, options.width - fixed);
  }
  const line = (texts: { text: string; style?: StyleName | undefined }[]): string => {
    const parts = texts.map(({ text, style: name }, place) => {
      const cut = truncateText(text, widths[place] ?? 0);
      const isLast = place === texts.length - 1 && shown[place]?.align !== "right";
      const padded = isLast ? cut : padText(cut, widths[place] ?? 0, shown[place]?.align ?? "left");
      return name && cut !== "" ? padded.replace(cut, () => style(name, cut)) : padded;
    });
    return `${indent}${parts.join(gap)}`.trimEnd();
  };
  const lines = header ? [line(shown.map((column) => ({ text: column.title, style: "dim" as const })))] : [];
  if (header && rule !== undefined) {
    const width = widths.reduce((sum, cells) => sum + cells, gap.length * (shown.length - 1));
    lines.push(`${indent}${style("dim", rule.repeat(Math.max(1, width)))}`);
  }
  for (const row of table.cells) lines.push(line(shown.map((column) => row[column.index] ?? { text: "" })));
  return `${lines.join("\n")}\n`;
}

/** Takes cells from the widest column that may be cut, again and again, until the table fits or nothing can be cut. */
function shrink(widths: number[], floors: readonly number[], room: number): void {
  const mayCut = (place: number): boolean => (widths[place] ?? 0) > (floors[place] ?? 0);
  let excess = widths.reduce((sum, width) => sum + width, 0) - room;
  while (excess > 0) {
    const places = widths.map((_width, place) => place).filter(mayCut);
    const [widest, second] = places.sort((a, b) => (widths[b] ?? 0) - (widths[a] ?? 0));
    if (widest === undefined) return;
    const current = widths[widest] ?? 0;
    const least = Math.max(floors[widest] ?? 0, second === undefined ? 0 : (widths[second] ?? 0));
    const taken = Math.min(excess, Math.max(1, current - least));
    widths[widest] = current - taken;
    excess -= taken;
  }
}

function valueOf(cell: Cell): CellValue {
  return typeof cell === "object" && cell !== null ? cell.text : cell;
}

function textOf(value: CellValue): string {
  if (value === null || value === undefined || value === "") return "-";
  return String(value);
}

/** A column without any value is as good as text. */
function isNumericColumn(values: readonly Cell[][], index: number): boolean {
  return values.some((row) => (valueOf(row[index]) ?? null) !== null) && values.every((row) => isNumeric(row[index]));
}

/** Plain numbers, and those with a unit or percent sign; absent values do not decide. */
function isNumeric(cell: Cell | undefined): boolean {
  const value = valueOf(cell);
  if (value === null || value === undefined || typeof value === "number") return true;
  return typeof value === "string" && /^[<-]?\d+(?:\.\d+)?(?: ?(?:%|[KMGTP]?i?B(?:\/s)?|ms|s|m|h|d))?$/.test(value);
}
