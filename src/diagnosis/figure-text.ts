/** Formats figures for people. */

const byteUnits = ["B", "KiB", "MiB", "GiB", "TiB"];

export function figure(value: number, unit: string): string {
  if (unit === "us") return durationText(value);
  if (unit === "s") return durationText(value * 1_000_000);
  if (unit === "ms") return durationText(value * 1_000);
  if (unit === "By") return bytesText(value);
  if (unit === "ratio") return `${rounded(value * 100)}%`;
  if (unit === "%") return `${rounded(value)}%`;
  return unit === "" || unit === "1" ? rounded(value) : `${rounded(value)} ${unit}`;
}

/** ` (4.5×)`; empty if there is nothing to compare with. */
export function times(before: number, after: number): string {
  if (before <= 0 || after <= before * 1.2) return "";
  return ` (${rounded(after / before)}×)`;
}

function durationText(us: number): string {
  if (us < 1_000) return `${rounded(us)} µs`;
  return us < 1_000_000 ? `${rounded(us / 1_000)} ms` : `${rounded(us / 1_000_000)} s`;
}

function bytesText(bytes: number): string {
  let [value, unit] = [bytes, 0];
  while (Math.abs(value) >= 1024 && unit < byteUnits.length - 1) {
    value /= 1024;
    unit++;
  }
  return `${rounded(value)} ${byteUnits[unit]}`;
}

/** Three digits. */
function rounded(value: number): string {
  if (Math.abs(value) >= 100) return Math.round(value).toLocaleString("en-US");
  return String(Number(value.toPrecision(Math.abs(value) >= 10 ? 3 : 2)));
}
