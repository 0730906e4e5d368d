import { CoralError } from "../../../base/errors.ts";
import type { SqlResult } from "../../../model/sql.ts";
import { type CellValue, type Table, tableOf } from "../../output/table.ts";
import { plural } from "../../output/values.ts";
import type { Invocation } from "../../run/invocation.ts";
import type { AnswerView } from "../../run/show-answer.ts";
import { showTool } from "../../run/show-tool.ts";
import { textOrStdin } from "../read-input.ts";

const numericTypes = /^(?:U?(?:TINY|SMALL|BIG|HUGE)?INT(?:EGER)?|FLOAT|DOUBLE|DECIMAL(?:\(.*\))?)$/;

/** `coral query sql`. */
export async function run(invocation: Invocation): Promise<void> {
  const { args, print, format } = invocation;
  const sql = await textOrStdin(invocation, args[0], "the SQL statement");
  if (sql.trim() === "")
    throw new CoralError({ code: "usage", message: 'Cannot run an empty statement: try coral query sql "SHOW TABLES"' });
  const view: AnswerView<SqlResult> = {
    table: sqlTable,
    after: ({ rows, elapsedMs }) => {
      if (format !== "csv") print.note(print.noteStyle("dim", `${plural(rows.length, "row")} in ${Math.round(elapsedMs)} ms`));
    },
  };
  await showTool(invocation, "coral_query_sql", view, { sql });
}

/** Column types come from DuckDB, so that numbers align right even when a column is empty. */
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
  // NULL must differ from a stored dash.
  return value === null || value === undefined ? "NULL" : rawValue(value);
}

function rawValue(value: unknown): CellValue {
  if (value === null || value === undefined) return null;
  return typeof value === "object" ? JSON.stringify(value) : (value as CellValue);
}
