/** Environment for a Node process whose wall clock is ahead by so much (negative: behind). The monotonic clock is left alone. */
export function shiftedClock(aheadMs: number): Record<string, string> {
  const script = `const now=Date.now;Date.now=()=>now()+(${aheadMs})`;
  return { NODE_OPTIONS: `--import=data:text/javascript,${encodeURIComponent(script)}` };
}
