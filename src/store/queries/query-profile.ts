/** CPU samples of a service by stack, with those of a baseline. */

import type { ProfileFacts, ProfileRequest, ProfileStackFact, StackFrame } from "../../model/profiles.ts";
import type { Resolved } from "../../model/services.ts";
import { booleanIn, numberIn, numberOrNullIn, type Queryable, type QueryParameter, type QueryRow, textIn } from "../tables/queryable.ts";
import { namedFilter } from "./service-filter.ts";

interface ProfileQuery extends Resolved<ProfileRequest> {
  nowMs: number;
}

/** Limit on stacks in an answer. Stacks beyond it have the fewest samples; the totals include them. */
const maxStacks = 5_000;

export async function queryProfile(store: Queryable, query: ProfileQuery): Promise<ProfileFacts> {
  const range = rangeOf(query);
  const rows = await store.query(
    `WITH chosen AS (
       SELECT stack, samples, cpu_us, agent_id, pid, start_ticks, "time" >= make_timestamp($from) AS is_now, epoch_us("time") AS at_us, window_ms
       FROM profile WHERE ${range.condition}
     ), counted AS (
       SELECT stack, ${sums("samples")}, ${sums("cpu_us")} FROM chosen GROUP BY stack ORDER BY sum(cpu_us) DESC, stack LIMIT ${maxStacks}
     ), total AS (
       SELECT ${sums("samples", "total_")}, ${sums("cpu_us", "total_")}, count(DISTINCT (agent_id, pid, start_ticks)) FILTER (is_now) AS instances,
         min(at_us - window_ms * 1000) FILTER (is_now) AS from_us, max(at_us) FILTER (is_now) AS until_us FROM chosen
     ), described AS (
       SELECT stack, any_value(frames) AS frames, any_value(is_whole) AS is_whole FROM profile_stack
       WHERE stack IN (SELECT stack FROM counted) GROUP BY stack
     )
     SELECT c.*, d.frames, d.is_whole, t.* FROM total t LEFT JOIN counted c ON true LEFT JOIN described d ON d.stack = c.stack
     ORDER BY c.cpu_us DESC, c.stack`,
    range.parameters,
  );
  const [first = {}] = rows;
  return {
    stacks: rows.flatMap((row) => (textIn(row, "stack") === "" ? [] : [stackIn(row)])),
    samples: numberIn(first, "total_samples"),
    cpuUs: numberIn(first, "total_cpu_us"),
    samplesBefore: numberIn(first, "total_samples_before"),
    cpuUsBefore: numberIn(first, "total_cpu_us_before"),
    instances: numberIn(first, "instances"),
    fromMs: millis(numberOrNullIn(first, "from_us")),
    untilMs: millis(numberOrNullIn(first, "until_us")),
    losses: await queryProfileLosses(store, query),
  };
}

function sums(column: string, prefix = ""): string {
  const sum = (is: string): string => `coalesce(sum(${column}) FILTER (${is}), 0)::DOUBLE`;
  return `${sum("is_now")} AS ${prefix}${column}, ${sum("NOT is_now")} AS ${prefix}${column}_before`;
}

function rangeOf(query: ProfileQuery): { condition: string; parameters: Record<string, QueryParameter> } {
  const { service, sinceMs, baselineMs, thread, agentIds, nowMs } = query;
  const named = namedFilter(service);
  const us = (ms: number): number => Math.floor(ms * 1_000);
  const conditions = [`service IN (${named.list})`];
  const parameters: Record<string, QueryParameter> = { ...named.parameters, from: us(nowMs - sinceMs), until: us(nowMs) };
  const within = (from: string, until: string): string => `("time" >= make_timestamp($${from}) AND "time" <= make_timestamp($${until}))`;
  if (baselineMs === undefined) conditions.push(within("from", "until"));
  else {
    conditions.push(`(${within("from", "until")} OR ${within("before_from", "before_until")})`);
    // The baseline ends before the window begins, so that no sample counts twice.
    const endMs = Math.min(nowMs - baselineMs, nowMs - sinceMs - 1);
    Object.assign(parameters, { before_from: us(nowMs - baselineMs - sinceMs), before_until: us(endMs) });
  }
  if (thread !== undefined) {
    conditions.push("thread = $thread");
    parameters["thread"] = thread;
  }
  if (agentIds !== undefined) {
    conditions.push(`agent_id IN (${["", ...agentIds].map((_, index) => `$agent${index}`).join(", ")})`);
    for (const [index, id] of ["", ...agentIds].entries()) parameters[`agent${index}`] = id;
  }
  return { condition: conditions.join(" AND "), parameters };
}

async function queryProfileLosses(store: Queryable, { agentIds, sinceMs, nowMs }: ProfileQuery): Promise<ProfileFacts["losses"]> {
  const chosen = agentIds === undefined ? "" : ` AND agent_id IN (${["", ...agentIds].map((_, index) => `$agent${index}`).join(", ")})`;
  const agents = agentIds === undefined ? {} : Object.fromEntries(["", ...agentIds].map((id, index) => [`agent${index}`, id]));
  const rows = await store.query(
    `SELECT loss, sum("count")::DOUBLE AS lost FROM profile_loss WHERE "time" >= make_timestamp($from)${chosen} GROUP BY loss ORDER BY loss`,
    { from: Math.floor((nowMs - sinceMs) * 1_000), ...agents },
  );
  return rows.map((row) => ({ loss: textIn(row, "loss"), count: numberIn(row, "lost") }));
}

function stackIn(row: QueryRow): ProfileStackFact {
  return {
    frames: framesIn(textIn(row, "frames")),
    isWhole: booleanIn(row, "is_whole"),
    samples: numberIn(row, "samples"),
    cpuUs: numberIn(row, "cpu_us"),
    samplesBefore: numberIn(row, "samples_before"),
    cpuUsBefore: numberIn(row, "cpu_us_before"),
  };
}

/** A stack whose description was removed by retention or has not arrived yet becomes one unknown frame. */
function framesIn(json: string): StackFrame[] {
  return json === "" ? [["[stack not known]", "", "unknown"]] : (JSON.parse(json) as StackFrame[]);
}

function millis(us: number | null): number | null {
  return us === null ? null : us / 1_000;
}
