/** A table whose oldest rows may be removed. */
export interface RetainedTable {
  name: string;
  rows: number;
  /** An estimate is enough: sizes are scaled so that their sum is the real size of the file. */
  rowBytes: number;
  weight: number;
  /** The newest rows, which always stay: deleting within DuckDB's last row group frees nothing. */
  minRows: number;
}

/**
 * The number of oldest rows to remove from each table, so that `usedBytes` falls to `budgetBytes`. A table within its share by weight loses
 * nothing, and what it leaves unused goes to the others.
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

/** Space is freed by row groups, so one cut may free less than planned. Each further attempt cuts a fifth of the rest. */
export const maxAttempts = 8;

/** Approximate size of a row before compression. */
export function guessRowBytes(types: readonly string[]): number {
  return types.reduce((total, type) => total + (type === "VARCHAR" ? 24 : type.endsWith("[]") ? 96 : type === "BOOLEAN" ? 1 : 8), 0);
}
