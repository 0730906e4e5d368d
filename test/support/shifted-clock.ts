/** Environment for a Node process with a shifted wall clock (negative: behind). The monotonic clock is unchanged. */
export function shiftedClock(aheadMs: number): Record<string, string> {
  const script = `const now=Date.now;Date.now=()=>now()+(${aheadMs})`;
  return { NODE_OPTIONS: `--import=data:text/javascript,${encodeURIComponent(script)}` };
}
