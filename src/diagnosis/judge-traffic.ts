/** More requests than usual explain slowness and load without a fault. */

import { type MeasureFact, requestMeasures } from "../model/diagnosis.ts";
import { figure, times } from "./figure-text.ts";
import { scoreOf, shiftOf } from "./robust-shift.ts";
import type { Suspicion } from "./suspicion.ts";

/** Smaller growth is within what systems are built for. */
const minGrowth = 1.5;

export function judgeTraffic(measures: readonly MeasureFact[], entry: string | null): Suspicion[] {
  return measures.flatMap((measure) => {
    const { service, name, unit, before, after } = measure;
    if (name !== requestMeasures.rate || (entry !== null && service !== entry)) return [];
    if (before.count < 3 || after.count === 0 || after.median < minGrowth * before.median) return [];
    const score = scoreOf(shiftOf(before, after, 0.5));
    return {
      service,
      kind: "more-traffic" as const,
      score,
      rawScore: score,
      pointer: name,
      statement: `${name}: ${figure(before.median, unit)} → ${figure(after.median, unit)}${times(before.median, after.median)}`,
      figures: { name, unit, before: before.median, after: after.median },
      explainedBy: "",
    };
  });
}
