/** A table whose oldest rows may go. */
export interface RetainedTable {
  name: string;
  rows: number;
  /** A guess is enough: sizes are scaled so that together they are what the file really holds. */
  rowBytes: number;
  weight: number;
  /** The newest rows that stay in any case: deleting within DuckDB's last group of rows frees nothing. */
  minRows: number;
}

/**
 * How many of its oldest rows each table gives up so that together they take `budgetBytes` of the `usedBytes` they take now.
 * A table within its share by weight gives nothing, and what it leaves unused goes to the others.
 */
export function planByteRetention(tables: readonly RetainedTable[], usedBytes: number, budgetBytes: number): Map<string, number> {
  const guessedBytes = tables.reduce((total, table) => total + table.rows * table.rowBytes, 0);
  const plan = new Map<string, number>();
  if (guessedBytes === 0 || usedBytes <= budgetBytes) return plan;
  const scale = usedBytes / guessedBytes;
  let open = tables.map((table) => ({ ...table, rowBytes: table.rowBytes * scale }));
  let freeBytes = budgetBytes;
  for (;;) {
    const weights = open.reduce((total, table) => total + table.weight, 0);
    const bytesPerWeight = freeBytes / weights;
    const over = open.filter((table) => table.rows * table.rowBytes > table.weight * bytesPerWeight);
    if (over.length === open.length || over.length === 0) {
      for (const { name, rows, rowBytes, weight, minRows } of over) {
        const keptRows = Math.max(minRows, Math.floor((weight * bytesPerWeight) / rowBytes));
        if (keptRows < rows) plan.set(name, rows - keptRows);
      }
      return plan;
    }
    for (const table of open) if (!over.includes(table)) freeBytes -= table.rows * table.rowBytes;
    open = over;
  }
}

/** Space comes back by groups of rows, so one cut may free less than planned; each further one takes a fifth of what is left. */
export const maxAttempts = 8;

/** What a row takes before compression, roughly. */
export function guessRowBytes(types: readonly string[]): number {
  return types.reduce((total, type) => total + (type === "VARCHAR" ? 24 : type.endsWith("[]") ? 96 : type === "BOOLEAN" ? 1 : 8), 0);
}
