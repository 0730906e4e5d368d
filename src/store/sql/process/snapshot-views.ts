/** Exports rows of published views to files for the SQL process: DuckDB lets only one process open a database. */

import { rmSync, statSync } from "node:fs";
import { join } from "node:path";
import type { Connection } from "../../engine/connection.ts";
import { quoted } from "../../segments/segment-catalog.ts";
import type { SegmentRange } from "../../segments/segment-source.ts";
import { tooLarge } from "../explain-failure.ts";
import { type PublishedView, viewSchema } from "../published-views.ts";

/** One view that a statement reads. */
export interface SnapshotView {
  view: PublishedView;
  /** In lower case; "all" for statements that can see which columns exist. */
  columns: "all" | ReadonlySet<string>;
  range?: SegmentRange | undefined;
}

export interface SnapshotOptions {
  directory: string;
  /** Limit on all files together. */
  maxBytes: number;
  /** Export columns and types without rows. */
  isEmpty?: boolean;
}

type Column = PublishedView["columns"][number];

/** Exports one file per view, all from one snapshot. Returns the statements that create the views over them. */
export async function snapshotViews(connection: Connection, wanted: readonly SnapshotView[], options: SnapshotOptions): Promise<string[]> {
  const statements: string[] = [];
  let isOver = false;
  const files: string[] = [];
  const timer = setInterval(() => {
    const sizeBytes = files.reduce((total, file) => total + (statSync(file, { throwIfNoEntry: false })?.size ?? 0), 0);
    if (sizeBytes <= options.maxBytes) return;
    isOver = true;
    connection.interrupt();
  }, 50);
  await connection.run("BEGIN TRANSACTION");
  try {
    for (const { view, columns, range } of wanted) {
      const kept = view.columns.filter(({ name }) => columns === "all" || columns.has(name.toLowerCase()));
      const exported = kept.length > 0 ? kept : view.columns.slice(0, 1);
      const file = join(options.directory, `${view.name}.parquet`);
      files.push(file);
      const where = options.isEmpty ? ["false"] : conditions(view, range);
      await connection.run(
        `COPY (SELECT ${exported.map(exportSql).join(", ")} FROM ${viewSchema}."${view.name}"${where.length > 0 ? ` WHERE ${where.join(" AND ")}` : ""})
         TO ${quoted(file)} (FORMAT parquet, COMPRESSION lz4_raw, ROW_GROUP_SIZE 61440)`,
      );
      const back = exported.map(({ name, type }) => `"${name}"::${type} AS "${name}"`).join(", ");
      statements.push(`CREATE OR REPLACE VIEW ${viewSchema}."${view.name}" AS SELECT ${back} FROM read_parquet(${quoted(file)})`);
    }
  } catch (error) {
    for (const file of files) rmSync(file, { force: true });
    throw isOver ? tooLarge(options.maxBytes) : error;
  } finally {
    clearInterval(timer);
    await connection.run("ROLLBACK");
  }
  return statements;
}

/** Parquet has no 128-bit integers: DuckDB would write a DOUBLE. */
function exportSql({ name, type }: Column): string {
  return type === "HUGEINT" || type === "UHUGEINT" ? `"${name}"::VARCHAR AS "${name}"` : `"${name}"`;
}

/** The statement's restrictions on the rows; see view-ranges.ts. */
function conditions(view: PublishedView, range: SegmentRange = {}): string[] {
  const has = (column: string, type: string): boolean => view.columns.some(({ name, type: found }) => name === column && found === type);
  const equals = (column: string, value: SegmentRange["service"]): string[] =>
    typeof value === "string" && has(column, "VARCHAR") ? [`"${column}" = ${quoted(value)}`] : [];
  const bounds: string[] = [];
  if (has("time", "TIMESTAMP")) {
    if (range.fromUs !== undefined) bounds.push(`"time" >= make_timestamp(${Math.floor(range.fromUs)})`);
    if (range.untilUs !== undefined) bounds.push(`"time" <= make_timestamp(${Math.ceil(range.untilUs)})`);
  }
  return [...bounds, ...equals("service", range.service), ...equals("agent_id", range.agentId)];
}
