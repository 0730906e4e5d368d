/** How a span is named and timed, the same in tables, waterfall and details. */

import type { TraceSpan } from "../../../tools/index.ts";
import { latency } from "../../output/values.ts";

/** Nanoseconds as people read them: `120ns`, `85µs`, `1.2ms`. */
export function spanTime(ns: number): string {
  return ns < 1_000 ? `${Math.round(ns)}ns` : (latency(ns / 1_000) ?? "");
}

/** Its name, with the route or statement where the name leaves it out. */
export function spanLabel({ name, httpRoute, dbStatement, messagingDestination }: TraceSpan): string {
  if (dbStatement !== null && dbStatement.toUpperCase().startsWith(name.toUpperCase())) return dbStatement;
  const target = httpRoute ?? messagingDestination;
  return target === null || name.includes(target) ? name : `${name} ${target}`;
}
