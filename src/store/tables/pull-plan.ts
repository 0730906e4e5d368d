/** Plans one agent's pull response: which rows are new, which are lost, where the next pull starts. Does not access the database. */

import { CoralError } from "../../base/errors.ts";
import { type ColumnBatch, dropRows, type StoredColumn } from "../columns/column-batch.ts";
import { decodeBatch } from "../columns/column-codec.ts";
import type { LossCount } from "./loss-counts.ts";
import type { SignalSlice } from "./signal-slice.ts";

/** One agent's response to a pull. */
export interface AgentPull {
  agentId: string;
  epoch: string;
  slices: readonly SignalSlice[];
  losses: readonly LossCount[];
  /**
   * By signal name: whether rows of this time (milliseconds since 1970) are stored. Rows that are not stored count as pulled. Absent: all
   * are stored.
   */
  kept?: ReadonlyMap<string, (timeMs: number) => boolean>;
}

export interface Cursor {
  /** The highest stored sequence; 0 when none is. */
  seq: number;
  /** The agent's next sequence in its last response. Shows how many rows an ended epoch left unpulled. */
  nextSeq: number;
}

/** One epoch of one agent, as far as it was pulled. */
export interface Source {
  /** Identifies agent and epoch in stored rows. Rises with each new epoch. */
  source: number;
  agentId: string;
  epoch: string;
  cursors: ReadonlyMap<string, Cursor>;
  /** The agent's own loss counts, by `signal reason`. */
  losses: ReadonlyMap<string, number>;
}

/** Rows that will never arrive. */
export interface GapEntry {
  agentId: string;
  signal: string;
  epoch: string;
  reason: string;
  rows: number | null;
  firstSeq: number | null;
  lastSeq: number | null;
}

export interface NewRows {
  signal: string;
  firstSeq: number;
  batch: ColumnBatch;
}

export interface PullPlan {
  source: Source;
  rows: NewRows[];
  gaps: GapEntry[];
}

/** Limit on an agent's reasons for loss, so that it cannot fill the ledger. */
const maxLossCounts = 256;
const maxNameLength = 64;

/**
 * `known` is the current state of this epoch (a new Source for a new epoch), and `replaced` the agent's previous epoch if this one is new.
 * Ignores rows at or below a cursor, so a response may be applied any number of times. Throws `invalid` for a malformed response.
 */
export function planPull(
  pull: AgentPull,
  known: Source,
  replaced: Source | undefined,
  columnsOf: ReadonlyMap<string, readonly StoredColumn[]>,
): PullPlan {
  const cursors = new Map(known.cursors);
  const gaps: GapEntry[] = replaced ? epochGaps(replaced) : [];
  const rows: NewRows[] = [];
  for (const slice of pull.slices) {
    const columns = columnsOf.get(slice.signal);
    // A newer agent may have signals that this colony does not know.
    if (columns === undefined) continue;
    const planned = planSlice(slice, cursors.get(slice.signal) ?? { seq: 0, nextSeq: 1 }, columns);
    cursors.set(slice.signal, planned.cursor);
    if (planned.rows) rows.push(...keptRows(planned.rows, pull.kept?.get(slice.signal)));
    if (planned.lost) {
      const reason = known.cursors.has(slice.signal) ? "pruned" : "before-first-pull";
      gaps.push({ agentId: pull.agentId, epoch: pull.epoch, signal: slice.signal, reason, ...planned.lost });
    }
  }
  const { losses, gaps: lossGaps } = planLosses(pull, known);
  return { source: { ...known, cursors, losses }, rows, gaps: [...gaps, ...lossGaps] };
}

/** Runs of rows whose time is kept. Each run keeps its sequence numbers. */
function keptRows(rows: NewRows, isKept: ((timeMs: number) => boolean) | undefined): NewRows[] {
  if (isKept === undefined) return [rows];
  const { signal, firstSeq, batch } = rows;
  const times = batch.columns.find(({ name }) => name === "time");
  if (times?.kind !== "fixed") return [rows];
  const view = new DataView(times.values.buffer, times.values.byteOffset, times.values.byteLength);
  const isKeptAt = (row: number): boolean => row < batch.rows && isKept(Number(view.getBigInt64(row * 8, true)) / 1_000);
  const runs: NewRows[] = [];
  for (let row = 0; row < batch.rows; row++) {
    const start = row;
    while (isKeptAt(row)) row++;
    if (row > start) runs.push({ signal, firstSeq: firstSeq + start, batch: { ...dropRows(batch, start), rows: row - start } });
  }
  return runs;
}

interface PlannedSlice {
  cursor: Cursor;
  rows?: NewRows;
  lost?: { rows: number; firstSeq: number; lastSeq: number };
}

function planSlice(slice: SignalSlice, cursor: Cursor, columns: readonly StoredColumn[]): PlannedSlice {
  const { signal, oldestSeq, nextSeq, batch } = slice;
  if (!isSeq(oldestSeq) || !isSeq(nextSeq) || oldestSeq > nextSeq) throw malformed(signal, `it has sequences ${oldestSeq} to ${nextSeq}`);
  if (batch && !(batch.lastSeq < nextSeq)) throw malformed(signal, `its rows end at ${batch.lastSeq} but its next sequence is ${nextSeq}`);
  const decoded = batch && decodeBatch(batch, columns);
  // The agent may have pruned rows after it read them for this response.
  const available = batch ? Math.min(oldestSeq, batch.firstSeq) : oldestSeq;
  const planned: PlannedSlice = { cursor: { seq: cursor.seq, nextSeq: Math.max(cursor.nextSeq, nextSeq) } };
  if (available > cursor.seq + 1) {
    planned.lost = { rows: available - 1 - cursor.seq, firstSeq: cursor.seq + 1, lastSeq: available - 1 };
    planned.cursor.seq = available - 1;
  }
  const { seq } = planned.cursor;
  // Rows after a missing one are left for a later pull: the agent still has those in between.
  if (!batch || !decoded || batch.lastSeq <= seq || batch.firstSeq > seq + 1) return planned;
  const firstSeq = seq + 1;
  planned.rows = { signal, firstSeq, batch: firstSeq === batch.firstSeq ? decoded : dropRows(decoded, firstSeq - batch.firstSeq) };
  planned.cursor.seq = batch.lastSeq;
  return planned;
}

/** A new epoch means that the agent's store was recreated. What the old one still held is lost, and how many rows followed is unknown. */
function epochGaps({ agentId, epoch, cursors }: Source): GapEntry[] {
  const known = [...cursors].filter(([, { seq, nextSeq }]) => nextSeq > seq + 1);
  return [
    { agentId, epoch, signal: "*", reason: "epoch-changed", rows: null, firstSeq: null, lastSeq: null },
    ...known.map(([signal, { seq, nextSeq }]) => ({
      agentId,
      epoch,
      signal,
      reason: "epoch-changed",
      rows: nextSeq - 1 - seq,
      firstSeq: seq + 1,
      lastSeq: nextSeq - 1,
    })),
  ];
}

function planLosses(pull: AgentPull, known: Source): { losses: Map<string, number>; gaps: GapEntry[] } {
  const losses = new Map(known.losses);
  const gaps: GapEntry[] = [];
  if (pull.losses.length > maxLossCounts) throw malformed("*", `it counts ${pull.losses.length} kinds of loss`);
  for (const { signal, reason, rows } of pull.losses) {
    if (!Number.isSafeInteger(rows) || rows < 0 || signal.length > maxNameLength || reason.length > maxNameLength) {
      throw malformed(signal.slice(0, maxNameLength), "a loss count is out of range");
    }
    const key = `${signal} ${reason}`;
    const before = losses.get(key) ?? 0;
    if (rows <= before) continue;
    if (losses.size >= maxLossCounts && !losses.has(key)) throw malformed("*", `it counts more than ${maxLossCounts} kinds of loss`);
    losses.set(key, rows);
    gaps.push({ agentId: pull.agentId, epoch: pull.epoch, signal, reason, rows: rows - before, firstSeq: null, lastSeq: null });
  }
  return { losses, gaps };
}

function isSeq(value: number): boolean {
  return Number.isSafeInteger(value) && value >= 1;
}

function malformed(signal: string, why: string): CoralError {
  return new CoralError({ code: "invalid", message: `Cannot store a pull of "${signal}": ${why}` });
}
