import type { CellValue, Table } from "./table.ts";

/** RFC 4180 but with LF line ends: a header of JSON names, then raw values; absent values are empty. */
export function renderCsv(table: Table, header = true): string {
  const lines = header ? [table.columns.map((column) => quote(column.key)).join(",")] : [];
  for (const row of table.raw) lines.push(row.map(quote).join(","));
  return lines.length === 0 ? "" : `${lines.join("\n")}\n`;
}

/** Quotes a value with a comma, quote or line break, and one with outer blanks, which some readers strip. */
function quote(value: CellValue): string {
  if (value === null || value === undefined) return "";
  const text = String(value);
  return /[",\r\n]|^\s|\s$/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
}
