/** Formats metric values by their unit. */

import { sparkline } from "../../output/sparkline.ts";
import { bytes, grouped, latency } from "../../output/values.ts";

const unitUs: Record<string, number> = { s: 1_000_000, ms: 1_000, us: 1, ns: 0.001, min: 60_000_000, h: 3_600_000_000 };

/** `4.2ms`, `12.0 MiB`, `1,204`, `3.4 Cel`. */
export function metricValue(value: number | null, unit: string): string | null {
  if (value === null) return null;
  const factor = unitUs[unit];
  if (factor !== undefined && value >= 0) {
    const us = value * factor;
    return us > 0 && us < 1 ? `${plainNumber(us * 1_000)}ns` : latency(us);
  }
  if (unit === "By") return bytes(value);
  const text = plainNumber(value);
  const word = unit === "1" || unit.startsWith("{") ? "" : unit;
  return word === "" ? text : `${text} ${word}`;
}

/** A rate: `12/s`, `1.5 MiB/s`. Seconds per second, such as CPU time, is a plain number. */
export function metricRate(value: number | null, unit: string): string | null {
  if (value === null) return null;
  return unit === "By" ? `${bytes(value)}/s` : `${plainNumber(value)}/s`;
}

/** At most four significant digits below 1,000; whole numbers above. */
export function plainNumber(value: number): string {
  const size = Math.abs(value);
  if (Number.isInteger(value) && size < 1e15) return value < 0 ? `-${grouped(size)}` : grouped(size);
  if (size >= 1e15 || (size > 0 && size < 0.001)) return value.toExponential(2);
  if (size >= 1_000) return `${value < 0 ? "-" : ""}${grouped(Math.round(size))}`;
  return String(Number(value.toPrecision(3)));
}

/** Sparkline scaled from zero, or from the minimum when values are negative. */
export function trend(points: readonly (number | null)[]): string {
  const known = points.filter((point) => point !== null);
  if (known.length === 0) return "";
  const least = Math.min(0, ...known);
  return sparkline(
    points.map((point) => (point === null ? null : point - least)),
    0,
  );
}

/** How many points of a trend to request for a terminal of this width. */
export function pointsFor(width: number | undefined): number {
  return width === undefined || width >= 100 ? 30 : 15;
}
