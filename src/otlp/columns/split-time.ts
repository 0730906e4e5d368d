/** 64-bit times as two halves: nanoseconds do not fit a number exactly, and a bigint per cell costs more than the rest of its decoding. */

/** Nanoseconds since 1970 as whole microseconds, exact until the year 2255. Later times are clamped, so that a wrong time does not break its segment. */
export function microseconds(lowNs: number, highNs: number): number {
  // 2^32 = 4,294,967 * 1,000 + 296
  return Math.min(Number.MAX_SAFE_INTEGER, highNs * 4_294_967 + Math.floor((highNs * 296 + lowNs) / 1_000));
}

/** Nanoseconds from one time to another; exact up to 104 days, 0 when the end is before the start. */
export function nanosecondsBetween(startLow: number, startHigh: number, endLow: number, endHigh: number): number {
  const elapsed = (endHigh - startHigh) * 2 ** 32 + (endLow - startLow);
  return elapsed > 0 ? elapsed : 0;
}
