/**
 * Published views over segments. A view names no files: it reads those listed in a variable of its connection. So new segments change
 * nothing in the database, and users' SQL never sees file paths. Without the variable the view is empty.
 */

import { segmentSqlTypes } from "../segments/check-segment.ts";
import type { ColonySegments } from "../segments/colony-segments.ts";
import { schemaOf } from "../segments/parquet/encode-parquet.ts";
import { agentColumns, quoted } from "../segments/segment-catalog.ts";
import { hexSql, type SegmentRange } from "../segments/segment-source.ts";
import type { SegmentSignal } from "../signals/define-segment-signal.ts";
import type { ViewDefinition } from "./published-views.ts";

/** A view that a statement reads, and the known restrictions on its rows. */
export interface ViewUse {
  name: string;
  range?: SegmentRange;
}

const filesVariable = (signal: string): string => `segment_files_${signal}`;
const mixedVariable = (signal: string): string => `segment_mixed_${signal}`;

export function segmentView(signal: SegmentSignal, emptyFile: string): ViewDefinition {
  const columns = schemaOf(signal).map(({ name, type }) => {
    const isId = type === "id16" || type === "id8";
    return { name, type: isId ? "VARCHAR" : segmentSqlTypes[type], sql: isId ? `${hexSql(type, `"${name}"`)} AS "${name}"` : `"${name}"` };
  });
  const files = `coalesce(getvariable('${filesVariable(signal.name)}'), [${quoted(emptyFile)}])`;
  const mixed = `coalesce(getvariable('${mixedVariable(signal.name)}'), false)`;
  return {
    name: signal.name,
    description: signal.description,
    isSegmented: true,
    columns: [
      { name: "agent_id", type: "VARCHAR" },
      { name: "epoch", type: "VARCHAR" },
      ...columns.map(({ name, type }) => ({ name, type })),
    ],
    sql: `SELECT ${agentColumns}, ${columns.map(({ sql }) => sql).join(", ")}
      FROM read_parquet(${files}, filename = true, union_by_name = ${mixed})`,
  };
}

/** Statements to run on a query's connection before and after it. Remove the file list afterwards, because files are deleted. */
export interface ViewPreparation {
  before: string[];
  after: string[];
}

export async function segmentVariables(
  segments: Pick<ColonySegments, "variablesFor">,
  signals: readonly SegmentSignal[],
  uses: readonly ViewUse[],
): Promise<ViewPreparation> {
  const prepared: ViewPreparation = { before: [], after: [] };
  for (const signal of signals) {
    const use = uses.find(({ name }) => name === signal.name);
    if (use === undefined) continue;
    const { files, isMixed } = await segments.variablesFor(signal, use.range);
    const names = [filesVariable(signal.name), mixedVariable(signal.name)] as const;
    prepared.before.push(`SET VARIABLE ${names[0]} = [${files.map(quoted).join(", ")}]`, `SET VARIABLE ${names[1]} = ${isMixed}`);
    prepared.after.push(...names.map((name) => `RESET VARIABLE ${name}`));
  }
  return prepared;
}
