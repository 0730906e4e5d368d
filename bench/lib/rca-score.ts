/** AC@k: the share of cases whose guilty service is among the first k. Avg@5: the mean of AC@1 to AC@5. */

export type Truth = Record<string, { service: string; suite: string }>;

interface Tally {
  cases: number;
  /** By the number of causes considered, from one to five. */
  hits: number[];
}

/** Ranks that are scored: top 1 to top 5. */
const places = 5;

export function scoreText(predictions: readonly { id: string; ranked: readonly { service: string }[] }[], truth: Truth): string {
  const suites = new Map<string, Tally>();
  for (const { id, ranked } of predictions) {
    const known = truth[id];
    if (known === undefined) continue;
    const tally = suites.get(known.suite) ?? { cases: 0, hits: Array.from({ length: places }, () => 0) };
    suites.set(known.suite, tally);
    tally.cases++;
    const place = ranked.findIndex(({ service }) => service === known.service);
    for (let at = place; at >= 0 && at < places; at++) tally.hits[at] = (tally.hits[at] ?? 0) + 1;
  }
  const rows = [...suites].map(([name, { cases, hits }]) => {
    const shares = hits.map((count) => count / cases);
    return { name, cases, figures: [shares[0] ?? 0, shares[2] ?? 0, shares.reduce((sum, share) => sum + share, 0) / places] };
  });
  const macro = [0, 1, 2].map((at) => rows.reduce((sum, { figures }) => sum + (figures[at] ?? 0), 0) / Math.max(1, rows.length));
  const line = (name: string, figures: readonly number[]): string =>
    `${name.padEnd(16)} AC@1 ${figures[0]?.toFixed(3)}  AC@3 ${figures[1]?.toFixed(3)}  Avg@5 ${figures[2]?.toFixed(3)}`;
  return [...rows.map(({ name, cases, figures }) => line(`${name} (${cases})`, figures)), line("macro", macro)].join("\n");
}
