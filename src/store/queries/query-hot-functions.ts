/**
 * Functions of a service whose CPU time grew between two times, from its CPU samples. This is the evidence for "this function made it
 * slower". The times may differ in length: CPU time is compared per second, and as a share of the service's samples.
 */

import {
  deviationsBetween,
  type HotFunction,
  type HotFunctions,
  type HotFunctionsRequest,
  isShareChange,
  type ProfileTime,
  type StackFrame,
} from "../../model/profiles.ts";
import type { Resolved } from "../../model/services.ts";
import { booleanIn, numberIn, type Queryable, type QueryParameter, textIn } from "../tables/queryable.ts";
import { namedFilter } from "./service-filter.ts";

type HotFunctionsQuery = Resolved<HotFunctionsRequest>;

interface Pair {
  now: number;
  before: number;
}

interface Sums {
  frame: StackFrame;
  self: Pair;
  total: Pair;
  cpuUs: Pair;
}

/** Limit on the stacks read; those with the most CPU time come first. */
const maxStacks = 5_000;

export async function queryHotFunctions(store: Queryable, query: HotFunctionsQuery): Promise<HotFunctions> {
  const rows = await store.query(sqlOf(query), parametersOf(query));
  const samples: Pair = { now: 0, before: 0 };
  const cpuUs: Pair = { now: 0, before: 0 };
  const sums = new Map<string, Sums>();
  for (const row of rows) {
    const side = booleanIn(row, "is_now") ? "now" : "before";
    // Counts all stacks, including those beyond the limit.
    samples[side] = numberIn(row, "all_samples");
    cpuUs[side] = numberIn(row, "all_cpu_us");
    const json = textIn(row, "frames");
    if (json !== "") addStack(sums, JSON.parse(json) as StackFrame[], side, numberIn(row, "samples"), numberIn(row, "cpu_us"));
  }
  const lengthUs = { now: lengthOf(query.now), before: lengthOf(query.before) };
  const coresOf = (one: Pair): Pair => ({ now: shareOf(one.now, lengthUs.now), before: shareOf(one.before, lengthUs.before) });
  const functions = [...sums.values()].map(({ frame: [name, file, kind], self, total, cpuUs: us }): HotFunction => {
    const [now, before] = [
      { part: total.now, whole: samples.now },
      { part: total.before, whole: samples.before },
    ];
    return {
      name,
      file,
      kind,
      self: { now: shareOf(self.now, samples.now), before: shareOf(self.before, samples.before) },
      total: { now: shareOf(total.now, samples.now), before: shareOf(total.before, samples.before) },
      cores: coresOf(us),
      deviations: deviationsBetween(now, before),
      isSignificant: isShareChange(now, before),
    };
  });
  const grown = functions.filter(({ total }) => total.now > total.before).sort(byGrowth);
  const hottest = functions.filter(({ self }) => self.now > 0).sort((a, b) => b.self.now - a.self.now || byGrowth(a, b));
  return { samples, cores: coresOf(cpuUs), hottest: hottest.slice(0, query.limit), grown: grown.slice(0, query.limit) };
}

function sqlOf({ service, agentIds }: HotFunctionsQuery): string {
  const within = (name: string): string => `("time" >= make_timestamp($${name}_from) AND "time" < make_timestamp($${name}_until))`;
  const agents = agentIds === undefined ? "" : ` AND agent_id IN (${["", ...agentIds].map((_, index) => `$agent${index}`).join(", ")})`;
  return `WITH summed AS (
      SELECT stack, ${within("now")} AS is_now, sum(samples)::DOUBLE AS samples, sum(cpu_us)::DOUBLE AS cpu_us FROM profile
      WHERE service IN (${namedFilter(service).list}) AND (${within("now")} OR ${within("before")})${agents} GROUP BY ALL
    ), counted AS (
      SELECT *, sum(samples) OVER (PARTITION BY is_now) AS all_samples, sum(cpu_us) OVER (PARTITION BY is_now) AS all_cpu_us FROM summed
      ORDER BY cpu_us DESC, stack LIMIT ${maxStacks}
    ), described AS (
      SELECT stack, any_value(frames) AS frames FROM profile_stack WHERE stack IN (SELECT stack FROM counted) GROUP BY stack
    )
    SELECT c.*, d.frames FROM counted c LEFT JOIN described d ON d.stack = c.stack`;
}

function parametersOf({ service, now, before, agentIds }: HotFunctionsQuery): Record<string, QueryParameter> {
  const us = (ms: number): number => Math.floor(ms * 1_000);
  return {
    ...namedFilter(service).parameters,
    now_from: us(now.fromMs),
    now_until: us(now.untilMs),
    before_from: us(before.fromMs),
    before_until: us(before.untilMs),
    ...(agentIds === undefined ? {} : Object.fromEntries(["", ...agentIds].map((id, index) => [`agent${index}`, id]))),
  };
}

function addStack(sums: Map<string, Sums>, frames: readonly StackFrame[], side: keyof Pair, samples: number, cpuUs: number): void {
  const seen = new Set<Sums>();
  for (const frame of frames) {
    const sum = sumsOf(sums, frame);
    // A recursive function counts once per stack.
    if (seen.has(sum)) continue;
    seen.add(sum);
    sum.total[side] += samples;
    sum.cpuUs[side] += cpuUs;
  }
  const top = frames.at(-1);
  if (top !== undefined) sumsOf(sums, top).self[side] += samples;
}

function sumsOf(sums: Map<string, Sums>, frame: StackFrame): Sums {
  const key = `${frame[0]}\n${frame[1]}`;
  let sum = sums.get(key);
  if (sum === undefined) {
    sum = { frame, self: { now: 0, before: 0 }, total: { now: 0, before: 0 }, cpuUs: { now: 0, before: 0 } };
    sums.set(key, sum);
  }
  return sum;
}

/** A function that does the work sorts before its callers. */
function byGrowth(a: HotFunction, b: HotFunction): number {
  const added = ({ cores }: HotFunction): number => cores.now - cores.before;
  const own = ({ self }: HotFunction): number => self.now - self.before;
  return (
    Number(b.isSignificant) - Number(a.isSignificant) ||
    added(b) - added(a) ||
    own(b) - own(a) ||
    (`${a.name}\n${a.file}` < `${b.name}\n${b.file}` ? -1 : 1)
  );
}

function lengthOf({ fromMs, untilMs }: ProfileTime): number {
  return Math.max(0, untilMs - fromMs) * 1_000;
}

function shareOf(part: number, whole: number): number {
  return whole === 0 ? 0 : part / whole;
}
