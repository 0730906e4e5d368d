import duckdb from "@duckdb/node-bindings";
import { CoralError } from "../../base/errors.ts";
import type { TableTarget } from "../columns/column-chunks.ts";
import type { Database } from "../engine/database.ts";
import type { ColumnType } from "../signals/define-signal.ts";

export interface TableColumn {
  name: string;
  sqlType: string;
}

/** A table of a declaration, as it is in the file. */
export interface DeclaredTable extends TableTarget {
  /** In table order, which differs from the declaration after a column was added. Includes columns that are no longer declared. */
  columns: readonly TableColumn[];
}

const sqlTypes: Record<ColumnType, string> = {
  text: "VARCHAR",
  int: "BIGINT",
  float: "DOUBLE",
  bool: "BOOLEAN",
  time: "TIMESTAMP",
  uints: "UINTEGER[]",
};

export function sqlTypeOf(type: ColumnType): string {
  return sqlTypes[type];
}

const typeIds: Record<string, duckdb.Type> = {
  VARCHAR: 17,
  BIGINT: 5,
  DOUBLE: 11,
  BOOLEAN: 1,
  TIMESTAMP: 12,
  "UINTEGER[]": 24,
  UINTEGER: 8,
  UBIGINT: 9,
  HUGEINT: 16,
};

/**
 * Creates the table, or adds columns that the declaration has gained. Drops nothing: an older build may be reinstalled, and rows of a
 * removed column age out. Fails for a changed type.
 */
export async function ensureTable(
  database: Database,
  schema: string,
  table: string,
  declared: readonly TableColumn[],
): Promise<DeclaredTable> {
  const qualified = `"${schema}"."${table}"`;
  return await database.write(async (transaction) => {
    const list = declared.map(({ name, sqlType }) => `"${name}" ${sqlType}`).join(", ");
    await transaction.run(`CREATE TABLE IF NOT EXISTS ${qualified} (${list})`);
    // duckdb_columns() describes every table of every file, which takes seven times as long.
    const rows = await transaction.query(`SELECT name, type FROM pragma_table_info('${qualified}') ORDER BY cid`);
    const columns = rows.map((row): TableColumn => ({ name: String(row["name"]), sqlType: String(row["type"]) }));
    const stored = new Map(columns.map(({ name, sqlType }) => [name, sqlType]));
    for (const { name, sqlType } of declared) {
      const found = stored.get(name);
      if (found === undefined) {
        await transaction.run(`ALTER TABLE ${qualified} ADD COLUMN "${name}" ${sqlType}`);
        columns.push({ name, sqlType });
      } else if (found !== sqlType) {
        throw new CoralError({
          code: "unsupported",
          message: `Cannot open store "${database.file}": column "${table}.${name}" holds ${found} and is declared ${sqlType}; declare the changed column under a new name`,
        });
      }
    }
    return {
      database: database.name,
      schema,
      table,
      columns,
      types: columns.map(({ sqlType }) => typeIds[sqlType] ?? duckdb.Type.VARCHAR),
    };
  });
}
