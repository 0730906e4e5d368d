/** Draws tables and pages with box-drawing lines. Text must already be escaped, and may be styled. */

import { plainStyle, type Style, type StyleName } from "./style.ts";
import { padText, textWidth, truncateText } from "./text-width.ts";

/** Cells are escaped by the caller, because some contain signs wider than one cell. */
export interface BoxCell {
  text: string;
  style?: StyleName | undefined;
}

/** Least width of a column. */
const leastWidth = 6;

export interface BoxTableOptions {
  /** Width of the terminal in cells; undefined: no truncation. */
  width?: number | undefined;
  style?: Style;
}

/** A grid with a header. Empty without rows. */
export function renderBoxTable(titles: readonly string[], rows: readonly (readonly BoxCell[])[], options: BoxTableOptions = {}): string {
  if (rows.length === 0) return "";
  const { style = plainStyle } = options;
  const widths = titles.map((title, place) => Math.max(textWidth(title), ...rows.map((row) => textWidth(row[place]?.text ?? ""))));
  if (options.width !== undefined) shrink(widths, options.width - 3 * titles.length - 1);
  const rule = (left: string, middle: string, right: string): string =>
    `${left}${widths.map((width) => "─".repeat(width + 2)).join(middle)}${right}`;
  const line = (cells: readonly BoxCell[]): string => {
    const parts = widths.map((width, place) => {
      const { text = "", style: name } = cells[place] ?? {};
      const cut = truncateText(text, width);
      const padded = padText(cut, width, "left");
      return name && cut !== "" ? padded.replace(cut, () => style(name, cut)) : padded;
    });
    return `│ ${parts.join(" │ ")} │`;
  };
  return `${[rule("┌", "┬", "┐"), line(titles.map((text) => ({ text }))), rule("├", "┼", "┤"), ...rows.map(line), rule("└", "┴", "┘")].join(
    "\n",
  )}\n`;
}

/** Shrinks the widest column until the grid fits. */
function shrink(widths: number[], room: number): void {
  for (let excess = widths.reduce((sum, width) => sum + width, 0) - room; excess > 0; excess--) {
    const widest = Math.max(...widths);
    if (widest <= leastWidth) return;
    widths[widths.indexOf(widest)] = widest - 1;
  }
}

export interface BoxLine {
  /** Plain text, which is measured and truncated. */
  text: string;
  /** Applied after truncation. */
  style?: { name: StyleName; part: string };
}

/** Least inner width of a frame: the heading fields of a page fit without truncation. */
const leastBox = 49;

/** A titled frame around lines: `┌─ title ───┐`. All frames of a page get one `inner` width, so that they align. */
export function renderBox(title: string, lines: readonly BoxLine[], inner: number, style: Style = plainStyle): string {
  const head = truncateText(title, inner - 3);
  const body = lines.map(({ text, style: mark }) => {
    const padded = padText(truncateText(text, inner), inner, "left");
    return `│ ${mark && padded.includes(mark.part) ? padded.replace(mark.part, () => style(mark.name, mark.part)) : padded} │`;
  });
  const top = `┌─ ${style("bold", head)} ${"─".repeat(Math.max(0, inner - textWidth(head) - 1))}┐`;
  return `${[top, ...body, `└${"─".repeat(inner + 2)}┘`].join("\n")}\n`;
}

/** Wide enough for all lines, and not wider than the terminal. */
export function boxWidth(lines: readonly BoxLine[], terminal: number | undefined): number {
  const wanted = Math.max(leastBox, ...lines.map(({ text }) => textWidth(text)));
  return terminal === undefined ? wanted : Math.min(wanted, Math.max(20, terminal - 4));
}
