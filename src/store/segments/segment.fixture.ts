/** A segment signal with every kind of column, and rows for it. */

import { defineSegmentSignal } from "../signals/define-segment-signal.ts";
import { batchFromSegmentRows, type SegmentRow } from "./batch-builder.ts";
import type { SealSegment } from "./seal-segment.ts";
import { type DecodeBodies, sealSegment } from "./seal-segment.ts";
import type { WriteAheadRecord } from "./write-ahead.ts";

const hourMs = 3_600_000;

export const tick = defineSegmentSignal({
  name: "tick",
  description: "Rows for tests",
  columns: {
    time: "time",
    service: "text",
    trace_id: "id16",
    span_id: "id8",
    parent_id: "id8?",
    name: "text",
    body: "text?",
    amount: "int64",
    size: "int64?",
    status: "int32",
    code: "int32?",
    ratio: "double",
    share: "double?",
    flag: "bool",
    doubt: "bool?",
    seen: "time?",
  },
  lookup: "trace_id",
  retention: { agent: { maxAgeMs: hourMs, weight: 1 }, colony: { maxAgeMs: 2 * hourMs, weight: 1 } },
});

export type TickRow = SegmentRow<(typeof tick)["columns"]>;

export const tickStartUs = Date.UTC(2026, 0, 1) * 1_000;

const hex = (value: number, digits: number): string => (value * 2_654_435_761).toString(16).padStart(digits, "0").slice(-digits);

export const traceOf = (index: number): string => `${hex(index + 1, 16)}${hex(index + 7, 16)}`;

/** Distinct for every index, with nulls, short, long and non-ASCII texts, and extreme numbers. */
export function tickRow(index: number, timeUs = tickStartUs + index * 1_000): TickRow {
  return {
    time: timeUs,
    service: `service-${(index * 7) % 5}`,
    trace_id: traceOf(Math.floor(index / 3)),
    span_id: hex(index + 3, 16),
    parent_id: index % 3 === 0 ? null : hex(index + 2, 16),
    name: `name ${index % 11} \u{1f41a}`,
    body: index % 4 === 0 ? null : index % 4 === 1 ? "" : `überlang ${"x".repeat(index % 60)} ${index}`,
    amount: index % 9 === 0 ? -9_223_372_036_854_775_808n : BigInt(index) * 1_000_000_007n,
    size: index % 5 === 0 ? null : -index,
    status: index % 13 === 0 ? -2_147_483_648 : index,
    code: index % 2 === 0 ? null : 2_147_483_647 - index,
    ratio: index / 7,
    share: index % 3 === 0 ? null : -index / 3,
    flag: index % 2 === 0,
    doubt: index % 6 === 0 ? null : index % 2 === 1,
    seen: index % 7 === 0 ? null : timeUs - 5,
  };
}

export function tickRows(count: number, first = 0): TickRow[] {
  return Array.from({ length: count }, (_, index) => tickRow(first + index));
}

/** A request body for tests: rows as JSON, 64-bit numbers as text. */
export function tickBody(rows: readonly TickRow[]): WriteAheadRecord {
  const body = Buffer.from(JSON.stringify(rows, (_, value: unknown) => (typeof value === "bigint" ? `${value}n` : value)));
  return { kind: 1, rows: rows.length, receivedUs: tickStartUs, body };
}

/** Bodies of kind 1 contain rows. Any other kind counts as one undecodable row. */
export const decodeTicks: DecodeBodies = (records) => {
  const parse = (text: string): TickRow[] =>
    JSON.parse(text, (_, value: unknown) =>
      typeof value === "string" && /^-?\d+n$/.test(value) ? BigInt(value.slice(0, -1)) : value,
    ) as TickRow[];
  const good: TickRow[] = [];
  let malformed = 0;
  for (const { kind, body } of records) {
    if (kind === 1) good.push(...parse(Buffer.from(body).toString()));
    else malformed++;
  }
  return { batch: batchFromSegmentRows(tick, good), ...(malformed > 0 && { lost: { malformed } }) };
};

export const sealTicks: SealSegment = (job) => Promise.resolve(sealSegment(tick, job, decodeTicks));
