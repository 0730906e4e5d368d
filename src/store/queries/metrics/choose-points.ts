/** Chooses the table for a query: points as sent, or rolled up to one or ten minutes. */

import { numberOrNullIn, type Queryable } from "../../tables/queryable.ts";
import { oldestSql } from "../red-parts.ts";

/** A FROM clause item, parenthesised if it is a subquery. */
export interface PointSource {
  sql: string;
  /** Approximate interval between points of a series; 0 for points as sent. */
  stepMs: number;
}

export const sentPoints: PointSource = { sql: "metric_point", stepMs: 0 };

const minuteMs = 60_000;
const hourMs = 60 * minuteMs;
const coarse = [
  { name: "metric_point_1m", stepMs: minuteMs },
  { name: "metric_point_10m", stepMs: 10 * minuteMs },
] as const;

/**
 * Points as sent for a few hours, rolled up for more, as long as steps of `finestMs` stay distinct. Always the coarser table where
 * retention removed the finer rows. Roll-ups exist at the colony only.
 */
export async function choosePoints(store: Queryable, query: { startMs: number; endMs: number; finestMs: number }): Promise<PointSource> {
  const [row = {}] = await store.query(
    `SELECT ${oldestSql("raw.metric_point", '"time"')} AS sent, ${coarse.map(({ name }) => `${oldestSql(`rollup.${name}`, '"time"')} AS ${name}`).join(", ")}`,
  );
  const oldestMs = (name: string): number => (numberOrNullIn(row, name) ?? Number.POSITIVE_INFINITY) / 1_000;
  const lengthMs = query.endMs - query.startMs;
  const wanted = lengthMs > 72 * hourMs ? 2 : lengthMs > 6 * hourMs ? 1 : 0;
  const all = [{ name: "sent", stepMs: 0 }, ...coarse];
  const fine = all.slice(0, wanted + 1).filter(({ stepMs }) => stepMs <= query.finestMs);
  const first = fine.at(-1) ?? { name: "sent", stepMs: 0 };
  const chosen = all
    .slice(all.indexOf(all.find(({ name }) => name === first.name) ?? first))
    .reduce((best, other) =>
      oldestMs(best.name) > query.startMs && oldestMs(other.name) < oldestMs(best.name) - other.stepMs ? other : best,
    );
  if (chosen.stepMs === 0) return sentPoints;
  const { name, stepMs } = chosen;
  // Adds points that are not rolled up yet. One statement reads one snapshot, so each point counts once.
  const sql = `(SELECT * EXCLUDE (epoch) FROM ${name} UNION ALL BY NAME
    SELECT s.agent_id, r.* EXCLUDE (source, ingest, stored_at, mono_ms) FROM raw.metric_point r JOIN internal.sources s USING (source)
    WHERE r.ingest > (SELECT coalesce(max(ingest), 0) FROM internal.rollup_progress WHERE name = '${name}'))`;
  return { sql, stepMs };
}
