/** U+2581 to U+2588, one eighth of a cell each. Zero is the lowest block, not a blank, which stands for a missing value. */
const levels = "▁▂▃▄▅▆▇█";

/** One block character per point, scaled from 0 to the larger of `ceiling` and the maximum; a blank for a missing value. */
export function sparkline(points: readonly (number | null)[], ceiling = 1): string {
  const top = Math.max(ceiling, ...points.filter((point) => point !== null && Number.isFinite(point)).map(Number));
  return points
    .map((point) => {
      if (point === null || Number.isNaN(point)) return " ";
      const level = top === 0 ? 0 : Math.floor((Math.max(0, point) / top) * levels.length);
      return levels[Math.min(levels.length - 1, level)] ?? " ";
    })
    .join("");
}
