/**
 * Selects the stored rows for a step. Pulls of many agents are stored together, so a step may end between agents: progress is a pull number
 * and, within it, an agent.
 */

import type { Transaction } from "../engine/database.ts";

export interface PullRange {
  isEmpty: boolean;
  hasMore: boolean;
  /** SQL condition for the rows of a raw table named by `alias`. */
  where(alias: string): string;
  /** Call in the transaction that consumes the rows. */
  save(transaction: Transaction): Promise<void>;
}

const progressName = "discovery";
const pullsMax = 2_000;

interface Place {
  ingest: number;
  source: number;
}

/** There is one writer, so every number up to the highest one is committed. The rows of one agent in one pull are never split. */
export async function readPullRange(transaction: Transaction, maxRows: number): Promise<PullRange> {
  const [progress] = await transaction.query(
    `SELECT coalesce((SELECT max(ingest) FROM internal.rollup_progress WHERE name = '${progressName}'), 0) AS after,
       (SELECT max(ingest) FROM net.partial_progress) AS ingest, (SELECT max(source) FROM net.partial_progress) AS source`,
  );
  const after = Number(progress?.["after"] ?? 0);
  const partial: Place = { ingest: Number(progress?.["ingest"] ?? 0), source: Number(progress?.["source"] ?? 0) };
  const isNew = (alias: string): string =>
    `${alias}.ingest > ${after} AND (${alias}.ingest <> ${partial.ingest} OR ${alias}.source > ${partial.source})`;
  const pulls = await transaction.query(
    `SELECT ingest, source, count(*) AS rows FROM (
       SELECT ingest, source FROM raw.service_instance i WHERE ${isNew("i")} UNION ALL SELECT ingest, source FROM raw.connection c WHERE ${isNew("c")}
     ) GROUP BY ingest, source ORDER BY ingest, source LIMIT ${pullsMax + 1}`,
  );
  let last: Place = { ingest: after, source: 0 };
  let next: Place | undefined;
  let rows = 0;
  for (const [index, pull] of pulls.entries()) {
    rows += Number(pull["rows"]);
    const place = { ingest: Number(pull["ingest"]), source: Number(pull["source"]) };
    if (index > 0 && (rows > maxRows || index === pullsMax)) {
      next = place;
      break;
    }
    last = place;
  }
  const { ingest, source } = last;
  return {
    isEmpty: pulls.length === 0,
    hasMore: next !== undefined,
    where: (alias) => `${isNew(alias)} AND (${alias}.ingest < ${ingest} OR (${alias}.ingest = ${ingest} AND ${alias}.source <= ${source}))`,
    save: (saving) => saveProgress(saving, last, next?.ingest !== ingest),
  };
}

/** Stored in the table of roll-up progress: pulls are numbered above the highest number there. */
async function saveProgress(transaction: Transaction, { ingest, source }: Place, isWhole: boolean): Promise<void> {
  await transaction.run("DELETE FROM net.partial_progress");
  if (!isWhole) await transaction.run("INSERT INTO net.partial_progress VALUES (?, ?)", [ingest, source]);
  const done = isWhole ? ingest : ingest - 1;
  const changed = await transaction.run(`UPDATE internal.rollup_progress SET ingest = ? WHERE name = '${progressName}'`, [done]);
  if (changed === 0) await transaction.run(`INSERT INTO internal.rollup_progress VALUES ('${progressName}', ?)`, [done]);
}
