/** Formats figures and durations of incidents. */

import { formatDurationMs } from "../../../base/units.ts";
import type { IncidentSymptomView } from "../../../tools/index.ts";
import type { StyleName } from "../../output/style.ts";
import { latency, percent } from "../../output/values.ts";

export function stateStyle(state: string): StyleName {
  return state === "open" ? "red" : state === "closed" ? "green" : "dim";
}

/** Whole seconds, then minutes from ten minutes on, then hours from a day on. */
export function lasted(durationMs: number): string {
  const stepMs = durationMs >= 86_400_000 ? 3_600_000 : durationMs >= 600_000 ? 60_000 : 1_000;
  return formatDurationMs(Math.round(durationMs / stepMs) * stepMs);
}

/** `294ms`, `33%`; `-` when unknown. */
export function measure(value: number | null, kind: IncidentSymptomView["measure"]): string {
  return (kind === "latency" ? latency(value) : percent(value)) ?? "-";
}

export function indicator({ measure: kind, route }: Pick<IncidentSymptomView, "measure" | "route">): string {
  const what = kind === "latency" ? "p95" : kind === "errors" ? "failures" : "availability";
  return route === "" ? what : `${route} ${what}`;
}
