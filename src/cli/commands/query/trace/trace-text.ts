/** Formats names and durations of spans, for tables, waterfall and details. */

import type { TraceSpan } from "../../../../tools/index.ts";
import { latency } from "../../../output/values.ts";

/** Formats nanoseconds: `120ns`, `85µs`, `1.2ms`. */
export function spanTime(ns: number): string {
  return ns < 1_000 ? `${Math.round(ns)}ns` : (latency(ns / 1_000) ?? "");
}

/** The span name, with the route or statement if the name lacks it. */
export function spanLabel({ name, httpRoute, dbStatement, messagingDestination }: TraceSpan): string {
  if (dbStatement !== null && dbStatement.toUpperCase().startsWith(name.toUpperCase())) return dbStatement;
  const target = httpRoute ?? messagingDestination;
  return target === null || name.includes(target) ? name : `${name} ${target}`;
}
