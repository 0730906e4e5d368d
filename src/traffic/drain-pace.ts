/** How long the ring may fill before it is looked at again. Pure. */

const shortestMs = 20;
/** A ring that a burst would need 40 MB/s to fill meanwhile may wait longer. */
const longestMs = 100;
const longestOfLargeMs = 200;
const largeBytes = 8 << 20;

/**
 * Milliseconds until the next look, from what was waiting at this one; 0 means at once. An eighth of the ring in one pause is much: the next
 * pause may bring more. A pause grows by half while nothing comes, so an idle host costs five looks a second.
 */
export function nextDrainDelayMs(pendingBytes: number, ringBytes: number, lastDelayMs: number): number {
  const filled = pendingBytes / ringBytes;
  const limitMs = ringBytes >= largeBytes ? longestOfLargeMs : longestMs;
  if (filled > 1 / 4) return 0;
  if (filled > 1 / 64) return shortestMs;
  if (filled > 0) return Math.min(limitMs, Math.max(shortestMs, lastDelayMs));
  return Math.min(limitMs, Math.max(shortestMs, lastDelayMs * 1.5));
}
