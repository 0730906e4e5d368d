/** Increments of kernel counters between two samples. Counters wrap, and reset with their device, interface or cgroup. */

/** Counters of 32 bits, such as milliseconds in /proc/diskstats, wrap here. */
const wrap32 = 2 ** 32;
/** A decrease counts as a 32-bit wrap only when the implied increment is below this; otherwise it is a reset. */
const maxWrapGrowth = 2 ** 28;

export interface CounterDeltas {
  /** Never negative; null after a reset, which is counted. */
  of(before: number, now: number): number | null;
  /** The increment per second; 0 after a reset. */
  perSecond(before: number, now: number): number;
  /** Resets so far. */
  readonly resets: number;
}

/** One instance per sample counts the resets of that sample. */
export function createCounterDeltas(intervalS: number): CounterDeltas {
  let resets = 0;
  const of = (before: number, now: number): number | null => {
    if (now >= before) return now - before;
    const wrapped = now + wrap32 - before;
    if (before < wrap32 && wrapped < maxWrapGrowth) return wrapped;
    resets++;
    return null;
  };
  return {
    of,
    perSecond: (before, now) => roundTo((of(before, now) ?? 0) / intervalS, 3),
    get resets() {
      return resets;
    },
  };
}

/** Drops digits that are noise and cost space in the store. */
export function roundTo(value: number, digits: number): number {
  const factor = 10 ** digits;
  return Math.round(value * factor) / factor;
}

/** Clamped to 0..1, four digits: numerator and denominator are not read at exactly the same time. */
export function ratioOf(part: number, whole: number): number {
  return whole <= 0 ? 0 : roundTo(Math.min(1, Math.max(0, part / whole)), 4);
}
