import { CoralError } from "../../../base/errors.ts";
import type { SqlResult } from "../../../model/sql.ts";
import { type CellValue, type Table, tableOf } from "../../output/table.ts";
import { plural } from "../../output/values.ts";
import { connectColony } from "../../run/connection.ts";
import type { Invocation } from "../../run/invocation.ts";
import { showAnswer } from "../../run/show-answer.ts";
import { readInput } from "../read-input.ts";

const numericTypes = /^(?:U?(?:TINY|SMALL|BIG|HUGE)?INT(?:EGER)?|FLOAT|DOUBLE|DECIMAL(?:\(.*\))?)$/;

/** `coral query sql`. */
export async function run(invocation: Invocation): Promise<void> {
  const { options, args, print } = invocation;
  const given = args[0];
  const sql = given === undefined || given === "-" ? await readInput(invocation, "the SQL statement") : given;
  if (sql.trim() === "")
    throw new CoralError({ code: "usage", message: 'Cannot run an empty statement: try coral query sql "SHOW TABLES"' });
  const maxRows = options.integer("max-rows", 1, 10_000);
  const timeout = options.durationText("timeout");
  const colony = await connectColony(invocation);
  const input = { sql, ...(maxRows === undefined ? {} : { maxRows }), ...(timeout === undefined ? {} : { timeout }) };
  let last: SqlResult | undefined;
  const ask = async (): Promise<SqlResult> => {
    last = await colony.call<SqlResult>("coral_query_sql", input);
    return last;
  };
  await showAnswer(invocation, ask, { table: sqlTable });
  if (last && (invocation.format === "table" || invocation.format === "wide")) {
    print.note(print.noteStyle("dim", `${plural(last.rows.length, "row")} in ${Math.round(last.elapsedMs)} ms`));
  }
}

function sqlTable(result: SqlResult): Table {
  return tableOf(
    result.rows,
    result.columns.map(({ name, type }, index) => ({
      title: name,
      key: name,
      cell: (row) => valueText(row[index]),
      raw: (row) => rawValue(row[index]),
      align: numericTypes.test(type) ? ("right" as const) : ("left" as const),
    })),
  );
}

function valueText(value: unknown): CellValue {
  // A null must not look like a dash that somebody stored.
  return value === null || value === undefined ? "NULL" : rawValue(value);
}

function rawValue(value: unknown): CellValue {
  if (value === null || value === undefined) return null;
  return typeof value === "object" ? JSON.stringify(value) : (value as CellValue);
}
