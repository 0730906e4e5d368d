/** Formats durations and shares for findings and verdicts. */

/** `850 µs`, `12.3 ms`, `4.2 s`. */
export function microseconds(us: number): string {
  if (us < 1_000) return `${Math.round(us)} µs`;
  if (us < 1_000_000) return `${(us / 1_000).toFixed(us < 100_000 ? 1 : 0)} ms`;
  return `${(us / 1_000_000).toFixed(1)} s`;
}

/** `0.25%`, `3.1%`, `42%`. */
export function share(ratio: number): string {
  const percent = ratio * 100;
  return `${percent === 0 ? "0" : percent.toFixed(percent < 1 ? 2 : percent < 10 ? 1 : 0)}%`;
}

export function count(value: number): string {
  return Math.round(value).toLocaleString("en-US");
}

export function ratioText(times: number): string {
  return `${times.toFixed(times < 10 ? 1 : 0)} times`;
}
