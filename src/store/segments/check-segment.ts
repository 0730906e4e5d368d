/** Validates a file from an agent as a segment of its signal. An invalid file would fail every query that reads it. */

import { CoralError } from "../../base/errors.ts";
import type { Database } from "../engine/database.ts";
import { type SegmentColumnType, type SegmentSignal } from "../signals/define-segment-signal.ts";
import { hasOwnFooter } from "./parquet/check-footer.ts";
import { schemaOf } from "./parquet/encode-parquet.ts";
import { quoted } from "./segment-catalog.ts";

/** DuckDB's type for each column type. */
export const segmentSqlTypes: Record<SegmentColumnType, string> = {
  time: "TIMESTAMP",
  int64: "BIGINT",
  int32: "INTEGER",
  double: "DOUBLE",
  bool: "BOOLEAN",
  text: "VARCHAR",
  id16: "UUID",
  id8: "UBIGINT",
};

/** Throws `invalid` if columns or row count differ from the declaration. Files with another schema version may lack columns. */
export async function checkSegment(
  database: Database,
  signal: SegmentSignal,
  file: string,
  rows: number,
  schemaVersion: number,
): Promise<void> {
  const fail = (why: string, cause?: unknown): never => {
    throw new CoralError({ code: "invalid", message: `Cannot accept a segment of "${signal.name}": ${why}`, cause });
  };
  if (schemaVersion === signal.version && hasOwnFooter(signal, file, rows)) return;
  const found = await database
    .query(
      `SELECT column_name, column_type, (SELECT num_rows FROM parquet_file_metadata(${quoted(file)})) AS num_rows
       FROM (DESCRIBE SELECT * FROM read_parquet(${quoted(file)}))`,
    )
    .catch((error: unknown) => fail("it is not a readable Parquet file", error));
  const types = new Map(found.map((row) => [row["column_name"], row["column_type"]]));
  for (const { name, type, nullable } of schemaOf(signal)) {
    const foundType = types.get(name);
    const mayLack = nullable && schemaVersion !== signal.version;
    if (foundType === undefined && !mayLack) fail(`column "${name}" is missing`);
    if (foundType !== undefined && foundType !== segmentSqlTypes[type]) {
      fail(`column "${name}" is ${String(foundType)}, not ${segmentSqlTypes[type]}`);
    }
  }
  const counted = Number(found[0]?.["num_rows"]);
  if (counted !== rows) fail(`it has ${counted} rows instead of ${rows}`);
}
