/** Parses and formats durations and sizes: `250ms`, `30s`, `5m`, `2h`, `7d`; `512B`, `64KiB`, `256MiB`, `2GiB`. */

import { CoralError } from "./errors.ts";

const durationUnitsMs: Record<string, number> = { ms: 1, s: 1_000, m: 60_000, h: 3_600_000, d: 86_400_000 };
const sizeUnitsBytes: Record<string, number> = { B: 1, KiB: 1024, MiB: 1024 ** 2, GiB: 1024 ** 3, TiB: 1024 ** 4 };

/** `1h30m` → 5400000. A bare number is rejected, because its unit would be a guess. */
export function parseDurationMs(text: string): number {
  const trimmed = text.trim();
  const parts = [...trimmed.matchAll(/(\d+(?:\.\d+)?)(ms|s|m|h|d)/gy)];
  const consumed = parts.reduce((length, part) => length + part[0].length, 0);
  if (parts.length === 0 || consumed !== trimmed.length) {
    throw new CoralError({
      code: "invalid",
      message: `Cannot read duration "${text}": write a number with a unit, such as 250ms, 30s, 5m, 2h or 7d`,
    });
  }
  let totalMs = 0;
  for (const [, amount, unit] of parts) totalMs += Number(amount) * (durationUnitsMs[unit ?? ""] ?? Number.NaN);
  return Math.round(totalMs);
}

/** `256MiB` → 268435456. */
export function parseSizeBytes(text: string): number {
  const match = /^(\d+(?:\.\d+)?)(B|KiB|MiB|GiB|TiB)$/.exec(text.trim());
  if (!match) {
    throw new CoralError({
      code: "invalid",
      message: `Cannot read size "${text}": write a number with a unit, such as 512B, 64KiB, 256MiB or 2GiB`,
    });
  }
  return Math.round(Number(match[1]) * (sizeUnitsBytes[match[2] ?? ""] ?? Number.NaN));
}

/** At most two units: `3d 4h`, `5m 12s`, `840ms`. */
export function formatDurationMs(durationMs: number): string {
  if (durationMs < 1_000) return `${Math.round(durationMs)}ms`;
  const units: [string, number][] = [
    ["d", 86_400_000],
    ["h", 3_600_000],
    ["m", 60_000],
    ["s", 1_000],
  ];
  const first = units.findIndex(([, unitMs]) => durationMs >= unitMs);
  const shown = units.slice(first, first + 2);
  let restMs = durationMs;
  const words: string[] = [];
  for (const [name, unitMs] of shown) {
    const amount = Math.floor(restMs / unitMs);
    restMs -= amount * unitMs;
    if (amount > 0) words.push(`${amount}${name}`);
  }
  return words.join(" ");
}

/** Three significant digits: `1.21 GiB`, `512 B`. */
export function formatBytes(sizeBytes: number): string {
  const units = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];
  let value = sizeBytes;
  let unit = 0;
  while (Math.abs(value) >= 1024 && unit < units.length - 1) {
    value /= 1024;
    unit++;
  }
  const digits = unit === 0 || Math.abs(value) >= 100 ? 0 : Math.abs(value) >= 10 ? 1 : 2;
  return `${value.toFixed(digits)} ${units[unit]}`;
}

/** `64 kbit/s`, `1.2 Mbit/s`. */
export function formatBitRate(bytesPerSecond: number): string {
  const kilobits = (bytesPerSecond * 8) / 1_000;
  return kilobits < 1_000 ? `${Math.round(kilobits)} kbit/s` : `${(kilobits / 1_000).toFixed(1)} Mbit/s`;
}
