/** Finds when the requests of any service became slower, or failed more often, than usual. */

import { type OnsetFact, ownServicesSql, type TimeRange } from "../../../model/diagnosis.ts";
import { isTelemetryExport, isWaitingRequest } from "../../../model/waiting-requests.ts";
import { numberIn, numberOrNullIn, type Queryable, type QueryRow, textIn } from "../../tables/queryable.ts";
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
/** Half a million steps, which take some 50 MB. */
const seriesAtOnce = 1_000;

/** `severity`: by how many times the limit its steps exceed the usual value, weighted by requests. */
interface BadRun extends TimeRange {
  severity: number;
  /** Its bad steps in order, weighted alike. */
  steps: { startMs: number; severity: number }[];
}

export async function queryOnset(store: Queryable, { untilMs }: { untilMs: number }): Promise<OnsetFact> {
  const seen = seenSql({ fromMs: untilMs - lookBackMs, untilMs });
  const [row = {}] = await store.query(
    `SELECT least((SELECT min("time") FROM raw.red), (SELECT min("time") FROM raw.span_red), (SELECT min("time") FROM raw.metric_point)) AS first`,
  );
  const first = numberOrNullIn(row, "first");
  const ids = await querySeries(store, seen);
  const runs: BadRun[] = [];
  for (let start = 0; start < ids.length; start += seriesAtOnce)
    for (const series of await queryBadSteps(store, seen, ids.slice(start, start + seriesAtOnce))) runs.push(...badRuns(series));
  const { onsetMs, endMs } = lastTrouble(runs, untilMs);
  const isEarlier = (run: TimeRange): boolean => onsetMs === null || run.untilMs < onsetMs;
  const earlier = mergeOverlapping(runs.filter(isEarlier).map((run) => ({ fromMs: run.fromMs - guardMs, untilMs: run.untilMs + guardMs })));
  return { onsetMs, endMs, earlier, seenSinceMs: first === null ? null : first / 1_000 };
}

/** Served requests by series. An id is a hash that a double holds: grouping by four texts would be most of the work. */
function seenSql(range: TimeRange): string {
  const part = (table: string): string =>
    `SELECT hash(service, protocol, method, route) % ${Number.MAX_SAFE_INTEGER} AS id, service, protocol, method, route, "time", requests, is_error, duration_us
     FROM raw.${table} WHERE ${rangesSql('"time"', [range])} AND role = 'server' AND service NOT IN ${ownServicesSql}`;
  return `(${part("red")} UNION ALL ${part("span_red")})`;
}

/** Ids of the series with the most requests. */
async function querySeries(store: Queryable, seen: string): Promise<number[]> {
  const rows = await store.query(
    `SELECT id, any_value(service) AS service, any_value(protocol) AS protocol, any_value(method) AS method, any_value(route) AS route
     FROM ${seen} GROUP BY id ORDER BY sum(requests) DESC, service, protocol, method, route LIMIT ${seriesMax}`,
  );
  return rows.flatMap((row) => {
    const kind = { protocol: textIn(row, "protocol"), method: textIn(row, "method"), route: textIn(row, "route") };
    return isWaitingRequest(kind) || isTelemetryExport(kind) ? [] : [numberIn(row, "id")];
  });
}

/** One measure of one series: its bad steps in order, each with its place among all steps of the series. */
interface BadSteps {
  /** Steps of the series. */
  count: number;
  usual: number;
  limit: number;
  bad: { startMs: number; place: number; requests: number; value: number }[];
}

/**
 * The lower quarter is usual: trouble that has lasted for most of the time does not become usual. Only bad steps leave the database, because all
 * steps of all series are a million.
 */
async function queryBadSteps(store: Queryable, seen: string, ids: readonly number[]): Promise<BadSteps[]> {
  const limits = (name: string, least: string): string =>
    `${name}[2] AS usual_${name}, greatest(${least}, ${name}[2] + ${spreads} * (${name}[2] - ${name}[1])) AS limit_${name}`;
  const rows = await store.query(
    `WITH steps AS MATERIALIZED (
       SELECT id, epoch_ms(time_bucket(INTERVAL ${stepMs / 1_000} SECONDS, "time")) AS step, sum(requests)::DOUBLE AS requests,
         coalesce(sum(requests) FILTER (is_error), 0) / sum(requests) AS failed, sum(duration_us) / sum(requests) AS mean_us
       FROM ${seen} WHERE id IN (${ids.join(", ")}) GROUP BY ALL HAVING sum(requests) >= ${minRequests}
     ), series AS MATERIALIZED (
       SELECT id, steps, first, last, ${limits("mean_us", `mean_us[2] * ${minRatio}, mean_us[2] + ${minUs}`)}, ${limits("failed", `failed[2] + ${minFailed}`)}
       FROM (SELECT id, count(*) AS steps, min(step) AS first, max(step) AS last, quantile_disc(mean_us, [0.05, 0.25]) AS mean_us, quantile_disc(failed, [0.05, 0.25]) AS failed
         FROM steps GROUP BY id HAVING count(*) >= ${minBadSteps + minBetterSteps})
     ), bad AS (
       SELECT id, list(step) AS starts, list(requests) AS requests, list(mean_us) AS mean_us, list(failed) AS failed
       FROM steps JOIN series USING (id) WHERE steps.mean_us > limit_mean_us OR steps.failed > limit_failed GROUP BY id
     ), gapped AS (
       SELECT id, list(step) AS present FROM steps WHERE id IN (SELECT id FROM series WHERE (last - first) // ${stepMs} + 1 > steps) GROUP BY id
     )
     SELECT series.* EXCLUDE (id), bad.* EXCLUDE (id), present FROM series JOIN bad USING (id) LEFT JOIN gapped USING (id)`,
  );
  return rows.flatMap((row) => [badStepsIn(row, "mean_us"), badStepsIn(row, "failed")]);
}

function badStepsIn(row: QueryRow, name: "mean_us" | "failed"): BadSteps {
  const of = (column: string): number[] => {
    const value = row[column];
    return Array.isArray(value) ? value.map(Number) : [];
  };
  const [starts, requests, values, present] = [of("starts"), of("requests"), of(name), of("present").sort((a, b) => a - b)];
  const places = new Map(present.map((startMs, index) => [startMs, index]));
  const limit = numberIn(row, `limit_${name}`);
  const firstMs = numberIn(row, "first");
  const bad = starts
    .map((startMs, index) => ({
      startMs,
      place: places.get(startMs) ?? (startMs - firstMs) / stepMs,
      requests: requests[index] ?? 0,
      value: values[index] ?? 0,
    }))
    .filter(({ value }) => value > limit)
    .sort((a, b) => a.startMs - b.startMs);
  return { count: numberIn(row, "steps"), usual: numberIn(row, `usual_${name}`), limit, bad };
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
function badRuns({ count, usual, limit, bad }: BadSteps): BadRun[] {
  const found: BadRun[] = [];
  let run: (BadRun & { requests: number; lastPlace: number }) | null = null;
  const end = (betterSteps: number): void => {
    // When nearly all of it is bad, nothing is known of how it was before.
    if (run && run.steps.length >= minBadSteps && run.requests >= minBadRequests && betterSteps >= minBetterSteps) {
      const { fromMs, untilMs, severity } = run;
      const weight = Math.min(1, Math.sqrt(run.requests / fullWeightRequests));
      const weighed = run.steps.map((one) => ({ ...one, severity: one.severity * weight }));
      found.push({ fromMs, untilMs, severity: (severity / run.steps.length) * weight, steps: weighed });
    }
    run = null;
  };
  for (const [index, { startMs, place, requests, value }] of [...bad, { startMs: 0, place: count, requests: 0, value: 0 }].entries()) {
    if (run) {
      const better = place - run.lastPlace - 1;
      // Better steps until the one that ended the run, without that one.
      if (better >= endingGoodSteps) end(run.lastPlace + endingGoodSteps - index);
      else if (index === bad.length) end(count - index);
    }
    if (index === bad.length) break;
    run ??= { fromMs: startMs, untilMs: startMs, severity: 0, steps: [], requests: 0, lastPlace: place };
    run.untilMs = startMs + stepMs;
    const severity = Math.min(severityMax, (value - usual) / (limit - usual));
    run.severity += severity;
    run.steps.push({ startMs, severity });
    run.requests += requests;
    run.lastPlace = place;
  }
  return found;
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
