/** Layout of list pages: title, heavy line, table with a light line under its header, total. */

import type { Printer } from "./printer.ts";
import { renderTable, type Table } from "./table.ts";

export interface ScreenOptions {
  title: string;
  table: Table;
  /** Last line: `Total: 6 services`. */
  total: string;
  wide: boolean;
}

/** Cells of the line below the title. */
const titleRuleWidth = 74;

export function renderScreen({ title, table, total, wide }: ScreenOptions, print: Printer): string {
  const { style, width } = print;
  const body = renderTable(table, { wide, width: wide ? undefined : width, style, rule: "─" });
  return `${screenTitle(title, print)}\n${body === "" ? "" : `${body}\n`}${total}\n`;
}

/** Title, heavy line and an empty line. */
export function screenTitle(title: string, { style, width }: Printer): string {
  return `${style("bold", title)}\n${"━".repeat(Math.min(titleRuleWidth, width ?? titleRuleWidth))}\n`;
}
