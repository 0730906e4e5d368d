/** Which index a table lacks, from the conditions that a plan checks row by row. */

/** Smaller tables are read faster than an index is used. */
const minRows = 5_000;
const maxColumns = 3;

export interface ScannedTable {
  /** As `CREATE INDEX` wants it, quoted where needed. */
  table: string;
  rows: number;
  /** Columns compared with `=` first. */
  columns: readonly string[];
  /** First columns of the indexes that exist and are valid. */
  indexed: readonly string[];
  /** Between MySQL and Postgres the statement differs. */
  concurrently: boolean;
}

/** The statement that creates the index; null when the table is small, the condition is not one on columns, or an index exists that was not used. */
export function indexAdvice({ table, rows, columns, indexed, concurrently }: ScannedTable): string | null {
  const [first] = columns;
  if (rows < minRows || first === undefined || indexed.includes(first)) return null;
  const wanted = columns.slice(0, maxColumns);
  return concurrently
    ? `CREATE INDEX CONCURRENTLY ON ${table} (${wanted.join(", ")})`
    : `CREATE INDEX ${nameOf(table, wanted)} ON ${table} (${wanted.join(", ")})`;
}

function nameOf(table: string, columns: readonly string[]): string {
  return `idx_${[table, ...columns].join("_").replaceAll(/\W+/g, "_")}`.replace(/_+$/, "").slice(0, 60);
}
