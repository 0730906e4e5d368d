/** Suggests a missing index from the conditions that a plan checks row by row. */

/** Smaller tables are scanned faster than through an index. */
const minRows = 5_000;
const maxColumns = 3;

export interface ScannedTable {
  /** As `CREATE INDEX` expects it, quoted where needed. */
  table: string;
  rows: number;
  /** Columns compared with `=` first. */
  columns: readonly string[];
  /** First columns of existing valid indexes. */
  indexed: readonly string[];
  /** Postgres: CREATE INDEX CONCURRENTLY. */
  concurrently: boolean;
}

/**
 * The statement that creates the index. Null if the table is small, the condition is not on plain columns, or an existing index was not
 * used.
 */
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
