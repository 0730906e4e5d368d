/** The periods that a summary compares, and the rows to read for them. */

import type { RequestSource, SummaryPeriod } from "../../../model/summary.ts";
import { numberOrNullIn, type Queryable } from "../../tables/queryable.ts";
import { clockAheadMs } from "../query-traces.ts";
import type { PartsRange } from "../request-parts.ts";

export interface PeriodRange extends PartsRange {
  /** The part of the period that rows cover. */
  coveredMs: number;
}

/** Absent: nothing is known of that period. */
export type PeriodRanges = { now: PeriodRange /** False when nothing was ever counted. */; isWatched: boolean } & Partial<
  Record<SummaryPeriod, PeriodRange>
>;

const secondMs = 1_000;
const minuteMs = 60 * secondMs;
const hourMs = 60 * minuteMs;
const dayMs = 24 * hourMs;
const tenMinutesMs = 10 * minuteMs;
/** Windows up to this length read ten-second rows, longer ones one-minute rows. */
const rawMaxMs = 2 * minuteMs;
const minutesMaxMs = 3 * hourMs;
/** The time of a hook's row is the end of its ten seconds; that of a span row is the start. */
const windowEnds = {
  hooks: { sinceFirstMs: 10 * secondMs, untilNewestMs: 0 },
  spans: { sinceFirstMs: 0, untilNewestMs: 10 * secondMs },
} as const;
/** A newest row older than this means that requests stopped, not that rows are in transit. */
const lagMs = 2 * minuteMs;
/** A period with less coverage than this share is not used as a baseline. */
const minCovered = 0.25;

/** Reads only the first and last time of each table, which is cheap at any size. */
export async function summaryRanges(
  store: Queryable,
  source: RequestSource,
  { sinceMs, nowMs }: { sinceMs: number; nowMs: number },
): Promise<PeriodRanges> {
  const name = source === "hooks" ? "red" : "span_red";
  const [row = {}] = await store.query(
    `SELECT (SELECT min(bucket) FROM rollup.${name}_10m) AS oldest,
       (SELECT max("time") FROM raw.${name} WHERE "time" > make_timestamp(${Math.floor((nowMs - lagMs) * 1_000)})) AS newest`,
  );
  const firstRolledMs = millisecondsOf(numberOrNullIn(row, "oldest"));
  const { sinceFirstMs, untilNewestMs } = windowEnds[source];
  const newestMs = Math.min(nowMs, (millisecondsOf(numberOrNullIn(row, "newest")) ?? nowMs) + untilNewestMs);
  const step = sinceMs <= rawMaxMs ? 0 : sinceMs <= minutesMaxMs ? minuteMs : tenMinutesMs;
  const resolution = step === 0 ? "raw" : step === minuteMs ? "1m" : "10m";
  const startMs = step === 0 ? nowMs - sinceMs : Math.floor((nowMs - sinceMs) / step) * step;
  const baseMs = Math.max(hourMs, sinceMs);
  // A gap of at least ten minutes keeps the start of an incident out of the baseline.
  const endMs = Math.floor((startMs - tenMinutesMs) / tenMinutesMs) * tenMinutesMs;
  const isYoung = firstRolledMs === null || firstRolledMs > endMs - baseMs / 2;
  const firstRowMs = isYoung ? await firstRow(store, name, firstRolledMs) : firstRolledMs;
  const firstMs = firstRowMs === null ? null : firstRowMs - sinceFirstMs;
  const seenMs = (from: number, until: number): number => Math.max(0, until - Math.max(from, firstMs ?? until));
  const now = {
    startMs,
    // Hooks use the agent's clock. Programs may send spans with any time, and spans far in the future do not count as current.
    endMs: source === "hooks" ? Number.POSITIVE_INFINITY : nowMs + clockAheadMs,
    resolution,
    coveredMs: Math.max(10 * secondMs, seenMs(startMs, newestMs)),
  } as const;
  // A new colony uses the time directly before the window as the baseline.
  const before: PeriodRange = isYoung
    ? { startMs: startMs - baseMs, endMs: startMs, resolution: step === 0 ? "raw" : "1m", coveredMs: seenMs(startMs - baseMs, startMs) }
    : { startMs: endMs - baseMs, endMs, resolution: "10m", coveredMs: seenMs(endMs - baseMs, endMs) };
  const middleMs = Math.floor((nowMs - dayMs - sinceMs / 2) / tenMinutesMs) * tenMinutesMs;
  const [fromMs, untilMs] = [middleMs - baseMs / 2, middleMs + baseMs / 2];
  const yesterday: PeriodRange = { startMs: fromMs, endMs: untilMs, resolution: "10m", coveredMs: seenMs(fromMs, untilMs) };
  return {
    now,
    isWatched: firstMs !== null,
    // One minute of baseline is accepted if there is no other.
    ...(before.coveredMs >= minuteMs ? { before } : {}),
    ...(yesterday.coveredMs >= minCovered * baseMs ? { yesterday } : {}),
  };
}

async function firstRow(store: Queryable, name: string, rolledMs: number | null): Promise<number | null> {
  const [row = {}] = await store.query(
    `SELECT (SELECT min("time") FROM raw.${name}) AS raw, (SELECT min(bucket) FROM rollup.${name}_1m) AS minutes`,
  );
  const minutesMs = millisecondsOf(numberOrNullIn(row, "minutes"));
  return earlier(rolledMs, tenMinutesMs, earlier(minutesMs, minuteMs, millisecondsOf(numberOrNullIn(row, "raw"))));
}

/** A roll-up's bucket begins at most one step before its first row; a finer row has the exact time. */
function earlier(bucketMs: number | null, stepMs: number, finerMs: number | null): number | null {
  if (bucketMs === null || finerMs === null) return finerMs ?? bucketMs;
  return bucketMs > finerMs - stepMs ? finerMs : bucketMs;
}

function millisecondsOf(us: number | null): number | null {
  return us === null ? null : us / 1_000;
}
