/** Renders aligned tables for people. Escapes cells, so that no value can send control sequences to the terminal. */

import { escapeText } from "../../base/escape-text.ts";
import { plainStyle, type Style, type StyleName } from "./style.ts";
import { padText, textWidth, truncateText, wrapText } from "./text-width.ts";

export type CellValue = string | number | boolean | null | undefined;
/** `null` and `undefined` print as a dash. */
export type Cell = CellValue | { text: CellValue; style?: StyleName };

export interface Column<Row> {
  /** Upper case by convention. */
  title: string;
  /** Column name in CSV, the same as in JSON. */
  key: string;
  /** Displayed text. */
  cell: (row: Row) => Cell;
  /** The value in CSV; default: the text of the cell. */
  raw?: (row: Row) => CellValue;
  /** Default: right when every present value is a number. */
  align?: "left" | "right";
  /** Only with -o wide and -o csv. */
  wide?: boolean;
  /** Last column only: wraps instead of truncating. */
  wraps?: boolean;
}

/** A column of one value: formatted for people, as it is in CSV. */
export function valueColumn<Row, Value extends CellValue>(
  title: string,
  key: string,
  read: (row: Row) => Value,
  format: (value: Value) => Cell,
  more: Pick<Column<Row>, "align" | "wide"> = {},
): Column<Row> {
  return { title, key, cell: (row) => format(read(row)), raw: read, ...more };
}

/** Rows with their columns, with erased types, for the renderers. */
export interface Table {
  columns: { title: string; key: string; align: "left" | "right"; wide: boolean; wraps: boolean }[];
  cells: { text: string; style: StyleName | undefined }[][];
  raw: CellValue[][];
}

/** Evaluates all cells once; renderers then only measure and print. */
export function tableOf<Row>(rows: readonly Row[], columns: readonly Column<Row>[]): Table {
  const values = rows.map((row) => columns.map((column) => column.cell(row)));
  const columnOf = (column: Column<Row>, index: number): Table["columns"][number] => ({
    title: column.title,
    key: column.key,
    align: column.align ?? (isNumericColumn(values, index) ? "right" : "left"),
    wide: column.wide ?? false,
    wraps: column.wraps ?? false,
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
  /** Include columns marked wide. */
  wide?: boolean;
  /** Terminal width in cells; undefined for other outputs, which are never truncated. */
  width?: number | undefined;
  style?: Style;
  /** Default true. */
  header?: boolean;
  /** Character of the line under the header. */
  rule?: string;
  /** Prefix of each line, such as two spaces inside a page. */
  indent?: string;
}

const gap = "  ";
/** Maximum padding without truncation, so that one very long cell does not widen every line. */
const maxPadWidth = 60;
/** Least width of a truncated text column, besides its title. */
const leastCutWidth = 8;

/**
 * Lines with a trailing newline each; empty without rows. With a width, text columns shrink until the table fits. Numbers never shrink: a
 * truncated number is wrong, a truncated name is only short. If nothing can shrink any more, lines exceed the width.
 */
export function renderTable(table: Table, options: RenderTableOptions = {}): string {
  if (table.cells.length === 0) return "";
  const { style = plainStyle, indent = "", header = true, rule } = options;
  const all = table.columns.map((column, index) => ({ ...column, index })).filter((column) => options.wide || !column.wide);
  const naturalWidth = (column: (typeof all)[number]): number => {
    let width = header ? textWidth(column.title) : 0;
    for (const row of table.cells) width = Math.max(width, textWidth(row[column.index]?.text ?? ""));
    return width;
  };
  const wrapped = wrappedColumn(all, all.map(naturalWidth), options);
  const shown = wrapped?.isBelow ? all.slice(0, -1) : all;
  const widths = shown.map((column) => (wrapped?.index === column.index ? wrapped.width : naturalWidth(column)));
  if (options.width !== undefined) {
    const fixed = indent.length + gap.length * (shown.length - 1);
    const floors = shown.map((column) =>
      column.align === "right" ? Number.POSITIVE_INFINITY : Math.max(leastCutWidth, textWidth(column.title)),
    );
    shrink(widths, floors, options.width - fixed);
  }
  const padWidths = options.width === undefined ? widths.map((width) => Math.min(width, maxPadWidth)) : widths;
  const line = (texts: { text: string; style?: StyleName | undefined }[]): string => {
    const parts = texts.map(({ text, style: name }, place) => {
      const cut = truncateText(text, widths[place] ?? 0);
      const isLast = place === texts.length - 1 && shown[place]?.align !== "right";
      const padded = isLast ? cut : padText(cut, padWidths[place] ?? 0, shown[place]?.align ?? "left");
      // Style after padding: escape sequences would count as width. A function, because `$&` in the text must not be expanded.
      return name && cut !== "" ? padded.replace(cut, () => style(name, cut)) : padded;
    });
    return `${indent}${parts.join(gap)}`.trimEnd();
  };
  const lines = header ? [line(shown.map((column) => ({ text: column.title, style: "dim" as const })))] : [];
  if (header && rule !== undefined) {
    const width = padWidths.reduce((sum, cells) => sum + cells, gap.length * (shown.length - 1));
    lines.push(`${indent}${style("dim", rule.repeat(Math.max(1, width)))}`);
  }
  for (const row of table.cells) {
    const cells = shown.map((column) => row[column.index] ?? { text: "" });
    if (!wrapped) {
      lines.push(line(cells));
      continue;
    }
    const { text, style: name } = row[wrapped.index] ?? { text: "", style: undefined };
    const [first = "", ...rest] = text === "-" && wrapped.isBelow ? [] : wrapText(text, wrapped.width);
    const below = wrapped.isBelow ? [first, ...rest].filter((part) => part !== "") : rest;
    lines.push(line(wrapped.isBelow ? cells : cells.with(-1, { text: first, style: name })));
    lines.push(...below.map((part) => `${" ".repeat(wrapped.indent)}${name ? style(name, part) : part}`));
  }
  return `${lines.join("\n")}\n`;
}

interface WrappedColumn {
  index: number;
  width: number;
  indent: number;
  /** Wrap below each row instead of beside it. */
  isBelow: boolean;
}

/** Least width for wrapping beside the other columns. */
const leastWrapWidth = 36;

/** How to wrap the last column; undefined when it fits or must not wrap. */
function wrappedColumn(
  columns: readonly (Table["columns"][number] & { index: number })[],
  widths: readonly number[],
  { width, indent = "" }: RenderTableOptions,
): WrappedColumn | undefined {
  const last = columns.at(-1);
  if (!last?.wraps || width === undefined) return undefined;
  const before = indent.length + widths.slice(0, -1).reduce((sum, cells) => sum + cells + gap.length, 0);
  const room = width - before;
  if ((widths.at(-1) ?? 0) <= room) return undefined;
  if (room >= leastWrapWidth) return { index: last.index, width: room, indent: before, isBelow: false };
  const under = indent.length + 2 * gap.length;
  return { index: last.index, width: Math.max(leastWrapWidth, width - under), indent: under, isBelow: true };
}

/** Repeatedly shrinks the widest truncatable column until the table fits or nothing can shrink. */
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

/** Whether a column is right-aligned; a column without values counts as text. */
function isNumericColumn(values: readonly Cell[][], index: number): boolean {
  return values.some((row) => (valueOf(row[index]) ?? null) !== null) && values.every((row) => isNumeric(row[index]));
}

/** Matches plain numbers and numbers with a unit or percent sign. */
function isNumeric(cell: Cell | undefined): boolean {
  const value = valueOf(cell);
  if (value === null || value === undefined || typeof value === "number") return true;
  return typeof value === "string" && /^[<-]?\d+(?:\.\d+)?(?: ?(?:%|[KMGTP]?i?B(?:\/s)?|ms|s|m|h|d))?$/.test(value);
}
