/** Short forms of numbers and times for tables and pages. */

import { formatBytes, formatDurationMs } from "../../base/units.ts";

/** 0.237 → `24%`; one digit after the point below 10 %. */
export function percent(ratio: number | null | undefined): string | null {
  if (ratio === null || ratio === undefined) return null;
  const value = ratio * 100;
  if (value === 0) return "0%";
  // A small share must not look like none.
  if (Math.abs(value) < 0.05) return "<0.1%";
  return `${Math.abs(value) < 9.95 ? value.toFixed(1) : Math.round(value)}%`;
}

export function bytes(sizeBytes: number | null | undefined): string | null {
  return sizeBytes === null || sizeBytes === undefined ? null : formatBytes(sizeBytes);
}

export function bytesPerSecond(rate: number | null | undefined): string | null {
  return rate === null || rate === undefined ? null : `${formatBytes(rate)}/s`;
}

/** `12s ago`, `3m 4s ago`; `now` below a second. */
export function ago(durationMs: number | null | undefined): string | null {
  if (durationMs === null || durationMs === undefined) return null;
  return durationMs < 1_000 ? "now" : `${formatDurationMs(durationMs)} ago`;
}

export function duration(durationMs: number | null | undefined): string | null {
  return durationMs === null || durationMs === undefined ? null : formatDurationMs(durationMs);
}

/** `in 3h 2m` or `5m ago`, seen from `nowMs`. */
export function relative(iso: string | null | undefined, nowMs: number): string | null {
  if (iso === null || iso === undefined) return null;
  const differenceMs = Date.parse(iso) - nowMs;
  if (Number.isNaN(differenceMs)) return iso;
  return differenceMs > 0 ? `in ${formatDurationMs(differenceMs)}` : ago(-differenceMs);
}

/** Local time; with the date when it is not today. */
export function localTime(iso: string, nowMs: number): string {
  const at = new Date(iso);
  if (Number.isNaN(at.getTime())) return iso;
  const two = (value: number): string => String(value).padStart(2, "0");
  const time = `${two(at.getHours())}:${two(at.getMinutes())}:${two(at.getSeconds())}`;
  if (at.toDateString() === new Date(nowMs).toDateString()) return time;
  return `${at.getFullYear()}-${two(at.getMonth() + 1)}-${two(at.getDate())} ${time}`;
}

/** At most three significant digits: `0.25`, `3.4`, `128`. */
export function number(value: number | null | undefined): string | null {
  if (value === null || value === undefined) return null;
  if (Number.isInteger(value)) return String(value);
  return Math.abs(value) >= 100 ? value.toFixed(0) : Math.abs(value) >= 10 ? value.toFixed(1) : value.toFixed(2);
}

/** The first few items and the number of further ones: `80,443 +3`. */
export function shortList(items: readonly (string | number)[], shown: number, separator = ","): string {
  const more = items.length - shown;
  return more > 0 ? `${items.slice(0, shown).join(separator)} +${grouped(more)}` : items.join(separator);
}

/** 12345 → `12,345`. */
export function grouped(value: number): string {
  return String(value).replace(/\B(?=(?:\d{3})+$)/g, ",");
}

/** `10.0.0.1:443`, `[2001:db8::1]:443`. */
export function addressWithPort(address: string, port: number | null): string {
  if (port === null) return address;
  return address.includes(":") ? `[${address}]:${port}` : `${address}:${port}`;
}

/** Rate with significant digits only: `1,245`, `12`, `0.4`, `<0.1`. */
export function rate(value: number): string {
  if (value >= 10) return grouped(Math.round(value));
  return value > 0 && value < 0.05 ? "<0.1" : String(Math.round(value * 10) / 10);
}

/** Microseconds with at most three digits: `85µs`, `1.2ms`, `340ms`, `2.5s`. */
export function latency(us: number | null | undefined): string | null {
  if (us === null || us === undefined) return null;
  // 999.5 rounds to 1000: switch to the next unit before that.
  if (us < 999.5) return `${Math.round(us)}µs`;
  const ms = us / 1_000;
  if (ms < 999.5) return `${ms < 9.95 ? ms.toFixed(1) : Math.round(ms)}ms`;
  const s = ms / 1_000;
  return `${s < 9.95 ? s.toFixed(1) : grouped(Math.round(s))}s`;
}

/** `1 agent`, `1,245 agents`. */
export function plural(count: number, one: string, many = `${one}s`): string {
  return `${grouped(count)} ${count === 1 ? one : many}`;
}
