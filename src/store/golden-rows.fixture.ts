/** Golden rows: reads rows as stored, and inserts rows as another build would have left them. */

import type { ColonyStore } from "./colony/colony-store.ts";
import type { Row, SqlParameter } from "./engine/sql-values.ts";

export type GoldenRow = Readonly<Record<string, SqlParameter>>;

/** `table` is qualified, such as `registry.agents`. Rows are sorted by their columns. */
export async function storedRows({ database }: ColonyStore, table: string): Promise<Row[]> {
  return await database.query(`SELECT * FROM "${database.name}".${table} ORDER BY ALL`);
}

/** Times are microseconds since 1970, as returned by `storedRows()`. */
export async function insertGoldenRows({ database }: ColonyStore, table: string, rows: readonly GoldenRow[]): Promise<void> {
  await database.write(async (transaction) => {
    const columns = await transaction.query(`SELECT name, type FROM pragma_table_info('${table}')`);
    const times = new Set(columns.filter(({ type }) => type === "TIMESTAMP").map(({ name }) => String(name)));
    for (const row of rows) {
      const places = Object.keys(row).map((name) => (times.has(name) ? "make_timestamp(?)" : "?"));
      const names = Object.keys(row).map((name) => `"${name}"`);
      await transaction.run(`INSERT INTO ${table} (${names.join(", ")}) VALUES (${places.join(", ")})`, Object.values(row));
    }
  });
}
