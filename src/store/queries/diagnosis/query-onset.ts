/** Finds when the requests of any service became slower, or failed more often, than usual. */

import { type OnsetFact, ownServicesSql, type TimeRange } from "../../../model/diagnosis.ts";
import { isTelemetryExport, isWaitingRequest } from "../../../model/waiting-requests.ts";
import { numberOrNullIn, type Queryable, type QueryRow, textIn } from "../../tables/queryable.ts";
import { rangesSql } from "./ranges-sql.ts";

const stepMs = 10_000;
/** How far back to search for an onset. The same time is the baseline. */
const lookBackMs = 90 * 60_000;
/** An incident is current if its last bad step is at most this old. */
const currentMs = 3 * 60_000;
/** Minimum evidence for a run: bad steps, requests in them, and better steps to compare with. */
const minBadSteps = 2;
const minBadRequests = 8;
const minBetterSteps = 9;
/** Runs with fewer requests get a lower severity. */
const fullWeightRequests = 60;
/** Caps how far one step may exceed the limit, as a multiple. */
const severityMax = 12;
const minRequests = 2;
/** A run of bad steps ends after this many consecutive good ones. */
const endingGoodSteps = 3;
/** A series that is still bad within this time takes precedence over one that has recovered. */
const recentMs = 30_000;
/** A step is bad if it is `spreads` spreads above the median, `minRatio` times as slow, and slower by a noticeable amount. */
const spreads = 4;
const minRatio = 1.5;
const minUs = 5_000;
const minFailed = 0.05;
/** The first series hit by an incident may be hit less than the worst one, and its first step less than the others: onsets this close, with this share of its severity, are the same incident. */
const sameIncidentMs = 60_000;
const sameIncidentShare = 0.4;
/** Padding around earlier incidents: they may start before they show, and queues take a while to drain. */
const guardMs = 20_000;
const seriesMax = 2_000;

/** `severity`: by how many times the limit its steps exceed the usual value, weighted by requests. */
interface BadRun extends TimeRange {
  severity: number;
  /** Its bad steps in order, weighted alike. */
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
       GROUP BY ALL HAVING sum(requests) >= ${minRequests})
     GROUP BY service, protocol, method, route HAVING count(*) >= ${minBadSteps + minBetterSteps} ORDER BY sum(requests) DESC, service, protocol, method, route LIMIT ${seriesMax}`,
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
      ...badRuns(stepsIn(row, "mean_us"), (usual) => Math.max(usual * minRatio, usual + minUs)),
      ...badRuns(stepsIn(row, "failed"), (usual) => usual + minFailed),
    ]);
  const { onsetMs, endMs } = lastTrouble(runs, untilMs);
  const isEarlier = (run: TimeRange): boolean => onsetMs === null || run.untilMs < onsetMs;
  const earlier = mergeOverlapping(runs.filter(isEarlier).map((run) => ({ fromMs: run.fromMs - guardMs, untilMs: run.untilMs + guardMs })));
  return { onsetMs, endMs, earlier, seenSinceMs: first === null ? null : first / 1_000 };
}

/** The onset of the worst run that lasts until now, else of the worst one that just ended. Includes lesser runs that began shortly before it. */
function lastTrouble(runs: readonly BadRun[], untilMs: number): Pick<OnsetFact, "onsetMs" | "endMs"> {
  const recent = runs.filter((run) => run.untilMs >= untilMs - recentMs);
  const chosen = recent.length > 0 ? recent : runs.filter((run) => run.untilMs >= untilMs - currentMs);
  const worst = chosen.reduce<BadRun | null>((most, run) => (most && most.severity >= run.severity ? most : run), null);
  if (worst === null) return { onsetMs: null, endMs: null };
  // A run may start with noise: its onset is its first step that is not mild compared with the worst run.
  const beginningOf = ({ steps, fromMs }: BadRun): number =>
    steps.find(({ severity }) => severity >= sameIncidentShare * worst.severity)?.startMs ?? fromMs;
  const worstMs = beginningOf(worst);
  const sameIncident = chosen.filter(({ severity }) => severity >= sameIncidentShare * worst.severity).map(beginningOf);
  return {
    onsetMs: Math.min(worstMs, ...sameIncident.filter((fromMs) => fromMs >= worstMs - sameIncidentMs)),
    endMs: recent.length > 0 ? null : Math.max(...chosen.map((run) => run.untilMs)),
  };
}

/** Runs of bad steps, with at most two good steps in between. */
function badRuns(steps: readonly Step[], limitOf: (usual: number) => number): BadRun[] {
  const values = steps.map(({ value }) => value).sort((a, b) => a - b);
  const at = (share: number): number => values[Math.floor(share * (values.length - 1))] ?? 0;
  // Uses the lower quartile, so that an incident that lasted most of the time does not count as usual.
  const usual = at(0.25);
  const limit = Math.max(limitOf(usual), usual + spreads * (at(0.25) - at(0.05)));
  const found: BadRun[] = [];
  let run: (BadRun & { bad: number; requests: number }) | null = null;
  let [good, better] = [0, 0];
  const end = (): void => {
    // If nearly all steps are bad, the usual value is unknown.
    if (run && run.bad >= minBadSteps && run.requests >= minBadRequests && better >= minBetterSteps) {
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

/** Merges overlapping ranges. */
function mergeOverlapping(ranges: readonly TimeRange[]): TimeRange[] {
  const found: TimeRange[] = [];
  for (const { fromMs, untilMs } of [...ranges].sort((a, b) => a.fromMs - b.fromMs)) {
    const last = found.at(-1);
    if (last && fromMs <= last.untilMs) last.untilMs = Math.max(last.untilMs, untilMs);
    else found.push({ fromMs, untilMs });
  }
  return found;
}
