/** When the requests of any service began to be slower or to fail more than they used to. */

import type { OnsetFact } from "../../../model/diagnosis.ts";
import { numberIn, numberOrNullIn, type Queryable, type QueryRow, textIn } from "../../tables/queryable.ts";
import { rangesSql } from "./ranges-sql.ts";

const stepMs = 30_000;
/** How far back the beginning is looked for, and what is compared with. */
const lookBackMs = 90 * 60_000;
/** The trouble is of now when its last bad step is not older. */
const stillMs = 3 * 60_000;
/** Steps that must be bad, and requests in each, before anything is concluded. */
const leastBadSteps = 2;
const leastBetterSteps = 4;
const leastRequests = 3;
/** A step is bad that is this many spreads above the median, half as slow again, and slower by what people notice. */
const spreads = 4;
const leastRatio = 1.5;
const leastUs = 5_000;
const leastFailed = 0.02;

export async function queryOnset(store: Queryable, { untilMs }: { untilMs: number }): Promise<OnsetFact> {
  const range = rangesSql('"time"', [{ fromMs: untilMs - lookBackMs, untilMs }]);
  const part = (table: string): string =>
    `SELECT service, "time", requests, is_error, duration_us FROM raw.${table} WHERE ${range} AND role = 'server'`;
  const rows = await store.query(
    `SELECT service, epoch_ms(time_bucket(INTERVAL ${stepMs / 1_000} SECONDS, "time")) AS step, sum(requests) AS requests,
       coalesce(sum(requests) FILTER (is_error), 0) / sum(requests) AS failed, sum(duration_us) / sum(requests) AS mean_us
     FROM (${part("red")} UNION ALL ${part("span_red")}) GROUP BY ALL HAVING sum(requests) >= ${leastRequests} ORDER BY service, step`,
  );
  const [seen = {}] = await store.query(
    `SELECT least((SELECT min("time") FROM raw.red), (SELECT min("time") FROM raw.span_red), (SELECT min("time") FROM raw.metric_point)) AS first`,
  );
  const first = numberOrNullIn(seen, "first");
  const services = new Map<string, QueryRow[]>();
  for (const row of rows) services.set(textIn(row, "service"), [...(services.get(textIn(row, "service")) ?? []), row]);
  const onsets = [...services.values()].flatMap((steps) =>
    [
      firstBadStep(steps, "mean_us", untilMs, (usual) => Math.max(usual * leastRatio, usual + leastUs)),
      firstBadStep(steps, "failed", untilMs, (usual) => usual + leastFailed),
    ].filter((onset) => onset !== null),
  );
  return { onsetMs: onsets.length === 0 ? null : Math.min(...onsets), seenSinceMs: first === null ? null : first / 1_000 };
}

/** The start of the run of bad steps that reaches up to now; one better step within it does not end it. */
function firstBadStep(
  steps: readonly QueryRow[],
  name: "mean_us" | "failed",
  untilMs: number,
  leastOf: (usual: number) => number,
): number | null {
  const values = steps.map((row) => numberIn(row, name)).sort((a, b) => a - b);
  const at = (share: number): number => values[Math.floor(share * (values.length - 1))] ?? 0;
  // The lower half: trouble that has lasted for most of the time does not become usual.
  const usual = at(0.25);
  const limit = Math.max(leastOf(usual), usual + spreads * (at(0.25) - at(0.05)));
  let [onset, bad, good]: [number | null, number, number] = [null, 0, 0];
  for (const row of [...steps].reverse()) {
    const startMs = numberIn(row, "step");
    if (onset === null && startMs + stepMs < untilMs - stillMs) return null;
    if (numberIn(row, name) > limit) {
      [onset, good] = [startMs, 0];
      bad++;
    } else if (++good > 1) break;
  }
  // When nearly all of it is bad, nothing is known of how it was before.
  const better = steps.filter((row) => onset !== null && numberIn(row, "step") < onset).length;
  return bad >= leastBadSteps && better >= leastBetterSteps ? onset : null;
}
