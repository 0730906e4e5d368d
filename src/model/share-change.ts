/** Whether chance explains the difference of two shares of samples: the usual test of proportions. */

/** Samples with a property, and all samples. */
export interface SampleShare {
  part: number;
  whole: number;
}

/** Standard deviations; chance alone passes it once in 370 comparisons. */
export const significantDeviations = 3;
/** A smaller change is not worth a look, however certain. */
export const leastShareChange = 0.01;

/** Standard deviations between two shares, positive where `now` is larger; 0 when either has no samples. */
export function deviationsBetween(now: SampleShare, before: SampleShare): number {
  if (now.whole === 0 || before.whole === 0) return 0;
  const pooled = (now.part + before.part) / (now.whole + before.whole);
  const deviation = Math.sqrt(pooled * (1 - pooled) * (1 / now.whole + 1 / before.whole));
  return deviation > 0 ? (now.part / now.whole - before.part / before.whole) / deviation : 0;
}

/** Larger than chance explains, and large enough to matter. */
export function isShareChange(now: SampleShare, before: SampleShare): boolean {
  if (now.whole === 0 || before.whole === 0) return false;
  const change = Math.abs(now.part / now.whole - before.part / before.whole);
  return change >= leastShareChange && Math.abs(deviationsBetween(now, before)) >= significantDeviations;
}
