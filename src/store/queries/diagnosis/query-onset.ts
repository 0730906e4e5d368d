/** When the requests of any service began to be slower or to fail more than they used to. */

import { type OnsetFact, ownServicesSql, type TimeRange } from "../../../model/diagnosis.ts";
import { isTelemetryExport, isWaitingRequest } from "../../../model/waiting-requests.ts";
import { numberOrNullIn, type Queryable, type QueryRow, textIn } from "../../tables/queryable.ts";
import { rangesSql } from "./ranges-sql.ts";

const stepMs = 10_000;
/** How far back the beginning is looked for, and what is compared with. */
const lookBackMs = 90 * 60_000;
/** The trouble is of now when its last bad step is not older. */
const stillMs = 3 * 60_000;
/** Steps that must be bad, and requests in them, before anything is concluded. */
const leastBadSteps = 2;
const leastBadRequests = 8;
const leastBetterSteps = 9;
/** Fewer requests make a run less certain. */
const fullWeightRequests = 60;
/** Beyond so many times the limit, more is not worse. */
const severityMax = 12;
const leastRequests = 2;
/** A run of bad steps ends with so many good ones. */
const endingGoodSteps = 3;
/** Of a series that is bad in its newest steps, the beginning counts before that of one that has recovered. */
const recentMs = 30_000;
/** A step is bad that is this many spreads above the median, half as slow again, and slower by what people notice. */
const spreads = 4;
const leastRatio = 1.5;
const leastUs = 5_000;
const leastFailed = 0.05;
/** Of one trouble, what it hits first may be hit less, and its first step less than the others. */
const togetherMs = 60_000;
const togetherPart = 0.4;
/** Around earlier trouble: it may have begun before it showed, and queues take a while to drain. */
const guardMs = 20_000;
const seriesMax = 2_000;

/** `severity`: how far its steps are beyond the limit, as a multiple, weighed by requests. */
interface BadRun extends TimeRange {
  severity: number;
  /** Of its bad steps, in order, weighed alike. */
  steps: { startMs: number; severity: number }[];
}

interface Step {
  startMs: number;
  requests: number;
  value: number;
}

export async function queryOnset(store: Queryable, { untilMs }: { untilMs: number }): Promise<OnsetFact> {
  const range = rangesSql('"time"', [{ fromMs: untilMs - lookBackMs, untilMs }]);
  const part = (table: string): string =>
    `SELECT service, protocol, method, route, "time", requests, is_error, duration_us FROM raw.${table} WHERE ${range} AND role = 'server' AND service NOT IN ${ownServicesSql}`;
  const rows = await store.query(
    `SELECT service, protocol, method, route, list(step ORDER BY step) AS steps, list(requests ORDER BY step) AS requests, list(failed ORDER BY step) AS failed, list(mean_us ORDER BY step) AS mean_us
     FROM (SELECT service, protocol, method, route, epoch_ms(time_bucket(INTERVAL ${stepMs / 1_000} SECONDS, "time")) AS step, sum(requests) AS requests,
       coalesce(sum(requests) FILTER (is_error), 0) / sum(requests) AS failed, sum(duration_us) / sum(requests) AS mean_us
       FROM (${part("red")} UNION ALL ${part("span_red")})
       GROUP BY ALL HAVING sum(requests) >= ${leastRequests})
     GROUP BY service, protocol, method, route HAVING count(*) >= ${leastBadSteps + leastBetterSteps} ORDER BY sum(requests) DESC, service, protocol, method, route LIMIT ${seriesMax}`,
  );
  const [seen = {}] = await store.query(
    `SELECT least((SELECT min("time") FROM raw.red), (SELECT min("time") FROM raw.span_red), (SELECT min("time") FROM raw.metric_point)) AS first`,
  );
  const first = numberOrNullIn(seen, "first");
  const isWaiting = (row: QueryRow): boolean => {
    const kind = { protocol: textIn(row, "protocol"), method: textIn(row, "method"), route: textIn(row, "route") };
    return isWaitingRequest(kind) || isTelemetryExport(kind);
  };
  const runs = rows
    .filter((row) => !isWaiting(row))
    .flatMap((row) => [
      ...badRuns(stepsIn(row, "mean_us"), (usual) => Math.max(usual * leastRatio, usual + leastUs)),
      ...badRuns(stepsIn(row, "failed"), (usual) => usual + leastFailed),
    ]);
  const { onsetMs, endMs } = lastTrouble(runs, untilMs);
  const isEarlier = (run: TimeRange): boolean => onsetMs === null || run.untilMs < onsetMs;
  const earlier = joined(runs.filter(isEarlier).map((run) => ({ fromMs: run.fromMs - guardMs, untilMs: run.untilMs + guardMs })));
  return { onsetMs, endMs, earlier, seenSinceMs: first === null ? null : first / 1_000 };
}

/** The beginning of the worst of what lasts until now, else of what has just ended; lesser trouble that began just before it belongs to it. */
function lastTrouble(runs: readonly BadRun[], untilMs: number): Pick<OnsetFact, "onsetMs" | "endMs"> {
  const recent = runs.filter((run) => run.untilMs >= untilMs - recentMs);
  const chosen = recent.length > 0 ? recent : runs.filter((run) => run.untilMs >= untilMs - stillMs);
  const worst = chosen.reduce<BadRun | null>((most, run) => (most && most.severity >= run.severity ? most : run), null);
  if (worst === null) return { onsetMs: null, endMs: null };
  // A run begins with the noise that happened to be before it: what is mild beside the worst is not its beginning.
  const beginningOf = ({ steps, fromMs }: BadRun): number =>
    steps.find(({ severity }) => severity >= togetherPart * worst.severity)?.startMs ?? fromMs;
  const worstMs = beginningOf(worst);
  const together = chosen.filter(({ severity }) => severity >= togetherPart * worst.severity).map(beginningOf);
  return {
    onsetMs: Math.min(worstMs, ...together.filter((fromMs) => fromMs >= worstMs - togetherMs)),
    endMs: recent.length > 0 ? null : Math.max(...chosen.map((run) => run.untilMs)),
  };
}

/** Times in which steps are bad, with at most two better ones among them. */
function badRuns(steps: readonly Step[], leastOf: (usual: number) => number): BadRun[] {
  const values = steps.map(({ value }) => value).sort((a, b) => a - b);
  const at = (share: number): number => values[Math.floor(share * (values.length - 1))] ?? 0;
  // The lower half: trouble that has lasted for most of the time does not become usual.
  const usual = at(0.25);
  const limit = Math.max(leastOf(usual), usual + spreads * (at(0.25) - at(0.05)));
  const found: BadRun[] = [];
  let run: (BadRun & { bad: number; requests: number }) | null = null;
  let [good, better] = [0, 0];
  const end = (): void => {
    // When nearly all of it is bad, nothing is known of how it was before.
    if (run && run.bad >= leastBadSteps && run.requests >= leastBadRequests && better >= leastBetterSteps) {
      const { fromMs, untilMs, severity } = run;
      const weight = Math.min(1, Math.sqrt(run.requests / fullWeightRequests));
      const weighed = run.steps.map((one) => ({ ...one, severity: one.severity * weight }));
      found.push({ fromMs, untilMs, severity: (severity / run.bad) * weight, steps: weighed });
    }
    run = null;
  };
  for (const { startMs, requests, value } of steps) {
    if (value > limit) {
      run ??= { fromMs: startMs, untilMs: startMs, severity: 0, bad: 0, requests: 0, steps: [] };
      run.untilMs = startMs + stepMs;
      const severity = Math.min(severityMax, (value - usual) / (limit - usual));
      run.severity += severity;
      run.steps.push({ startMs, severity });
      run.bad++;
      run.requests += requests;
      good = 0;
    } else {
      if (run && ++good >= endingGoodSteps) end();
      better++;
    }
  }
  end();
  return found;
}

function stepsIn(row: QueryRow, name: "mean_us" | "failed"): Step[] {
  const of = (column: string): number[] => {
    const value = row[column];
    return Array.isArray(value) ? value.map(Number) : [];
  };
  const [starts, requests, values] = [of("steps"), of("requests"), of(name)];
  return starts.map((startMs, index) => ({ startMs, requests: requests[index] ?? 0, value: values[index] ?? 0 }));
}

/** Overlapping times become one. */
function joined(ranges: readonly TimeRange[]): TimeRange[] {
  const found: TimeRange[] = [];
  for (const { fromMs, untilMs } of [...ranges].sort((a, b) => a.fromMs - b.fromMs)) {
    const last = found.at(-1);
    if (last && fromMs <= last.untilMs) last.untilMs = Math.max(last.untilMs, untilMs);
    else found.push({ fromMs, untilMs });
  }
  return found;
}
