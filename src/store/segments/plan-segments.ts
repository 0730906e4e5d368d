/** Plans one agent's pull: which segments are new, which rows are missing, where the next pull resumes. Pure: no database, no files. */

import { CoralError } from "../../base/errors.ts";
import type { GapEntry } from "../tables/pull-plan.ts";
import type { SegmentSummary } from "./seal-segment.ts";
import type { SegmentEntry, StoredHead } from "./segment-manifest.ts";

/** An agent's description of one of its segments. */
export interface SegmentOffer extends SegmentSummary {
  signal: string;
  firstNumber: number;
  number: number;
  rowsBefore: number;
  /** Damaged at the agent and counted as lost there; there is no file to read. */
  isLost: boolean;
}

/** One signal of an agent's pull response. */
export interface PulledSignal {
  signal: string;
  lastNumber: number;
  totalRows: number;
  /** Oldest first, contiguous. Each segment was received, or is skipped for the given reason. */
  offers: readonly (SegmentOffer & { skipReason?: string })[];
  /** True if the offers are everything that the agent has. */
  isAll: boolean;
}

export interface SegmentPull {
  agentId: string;
  epoch: string;
  signals: readonly PulledSignal[];
}

export interface SegmentPlan {
  added: { entry: SegmentEntry; filter: Uint8Array | undefined; replaces: boolean }[];
  /** Entries that a merged segment replaces. */
  replaced: SegmentEntry[];
  /** Received but not needed. */
  unneeded: SegmentOffer[];
  heads: StoredHead[];
  gaps: GapEntry[];
}

export interface SegmentFacts {
  headOf(epoch: string, signal: string): StoredHead | undefined;
  /** Heads of the agent's other epochs. */
  formerHeads(agentId: string, signal: string): StoredHead[];
  storedOf(epoch: string, signal: string): readonly SegmentEntry[];
  /** Whether the agent already sent these bytes in another epoch. An agent that lost its database offers them again. */
  hasFormer(agentId: string, epoch: string, offer: SegmentOffer): boolean;
  nowUs: number;
}

/** Ignores offers up to the checkpoint, so a pull may be applied any number of times. Throws `invalid` for a malformed response. */
export function planSegments(pull: SegmentPull, facts: SegmentFacts): SegmentPlan {
  const plan: SegmentPlan = { added: [], replaced: [], unneeded: [], heads: [], gaps: [] };
  for (const pulled of pull.signals) planSignal(pull, pulled, facts, plan);
  return plan;
}

function planSignal({ agentId, epoch }: SegmentPull, pulled: PulledSignal, facts: SegmentFacts, plan: SegmentPlan): void {
  const { signal } = pulled;
  const known = facts.headOf(epoch, signal);
  const head: StoredHead = known ? { ...known } : { agentId, epoch, signal, number: 0, rows: 0, known: 0 };
  const gap = (reason: string, rows: number): void => {
    if (rows > 0) plan.gaps.push({ agentId, epoch, signal, reason, rows, firstSeq: null, lastSeq: null });
  };
  // After a recovery without manifest, the number of earlier rows is unknown.
  let isRowCountKnown = known === undefined || known.known >= known.rows;
  checkSignal(pulled);
  if (known === undefined)
    planFormer(
      facts.formerHeads(agentId, signal),
      isContinued(pulled, (offer) => facts.hasFormer(agentId, epoch, offer)),
      plan,
    );
  const stored = facts.storedOf(epoch, signal);
  for (const offer of pulled.offers) {
    if (offer.number <= head.number) {
      plan.unneeded.push(offer);
      continue;
    }
    const overlapping = stored.filter(({ number }) => number >= offer.firstNumber);
    if (offer.firstNumber <= head.number && !overlapping.every(({ firstNumber }) => firstNumber >= offer.firstNumber)) {
      // Part of it was merged here with earlier rows: accepting it would count rows twice.
      gap("overlap", offer.rowsBefore + offer.rows - head.rows);
      plan.unneeded.push(offer);
    } else {
      if (offer.firstNumber > head.number && isRowCountKnown)
        gap(known || head.number > 0 ? "pruned" : "before-first-pull", offer.rowsBefore - head.rows);
      if (offer.skipReason !== undefined) {
        gap(offer.skipReason, offer.rows);
        plan.unneeded.push(offer);
      } else if (facts.hasFormer(agentId, epoch, offer)) plan.unneeded.push(offer);
      else if (!offer.isLost) take(offer, { agentId, epoch, nowUs: facts.nowUs }, overlapping, plan);
    }
    head.number = offer.number;
    head.rows = offer.rowsBefore + offer.rows;
    isRowCountKnown = true;
  }
  if (pulled.isAll && pulled.lastNumber > head.number) {
    if (isRowCountKnown) gap(known || head.number > 0 ? "pruned" : "before-first-pull", pulled.totalRows - head.rows);
    head.number = pulled.lastNumber;
    head.rows = pulled.totalRows;
  }
  head.known = Math.max(pulled.totalRows, head.rows);
  if (known === undefined || known.number !== head.number || known.known !== head.known) plan.heads.push(head);
}

function take(
  offer: SegmentOffer,
  { agentId, epoch, nowUs }: { agentId: string; epoch: string; nowUs: number },
  overlapping: readonly SegmentEntry[],
  plan: SegmentPlan,
): void {
  const { lookupFilter, isLost: _, ...summary } = offer;
  plan.replaced.push(...overlapping);
  const replaces = overlapping.some(({ number }) => number === offer.number);
  const entry: SegmentEntry = {
    agentId,
    epoch,
    signal: summary.signal,
    firstNumber: summary.firstNumber,
    number: summary.number,
    rowsBefore: summary.rowsBefore,
    rows: summary.rows,
    sizeBytes: summary.sizeBytes,
    minTimeUs: summary.minTimeUs,
    maxTimeUs: summary.maxTimeUs,
    services: summary.services,
    schemaVersion: summary.schemaVersion,
    sha256: summary.sha256,
    storedAtUs: nowUs,
    state: "stored",
  };
  plan.added.push({ entry, filter: lookupFilter, replaces });
}

/**
 * An agent that lost its database but kept its segments restarts row numbers and continues segment numbers. Rows that were not pulled are
 * among its offers.
 */
function isContinued({ offers: [first], lastNumber, totalRows }: PulledSignal, hasFormer: (offer: SegmentOffer) => boolean): boolean {
  if (first === undefined) return lastNumber > 0 && totalRows === 0;
  return (first.firstNumber > 1 && first.rowsBefore === 0) || hasFormer(first);
}

/** Handles a new epoch. Rows of the old epoch that were not pulled are lost, unless the new epoch continues it. */
function planFormer(formers: readonly StoredHead[], continues: boolean, plan: SegmentPlan): void {
  for (const former of formers) {
    if (former.known <= former.rows) continue;
    const { agentId, epoch, signal } = former;
    if (!continues)
      plan.gaps.push({ agentId, epoch, signal, reason: "epoch-changed", rows: former.known - former.rows, firstSeq: null, lastSeq: null });
    plan.heads.push({ ...former, rows: former.known });
  }
}

function checkSignal({ signal, lastNumber, totalRows, offers }: PulledSignal): void {
  const fail = (why: string): never => {
    throw new CoralError({ code: "invalid", message: `Cannot store segments of "${signal}": ${why}` });
  };
  let [number, rows] = [0, 0];
  for (const offer of offers) {
    const numbers = [offer.firstNumber, offer.number, offer.rowsBefore, offer.rows, offer.sizeBytes];
    if (!numbers.every((value) => Number.isSafeInteger(value) && value >= 0)) fail("a number is out of range");
    if (offer.firstNumber < 1 || offer.firstNumber > offer.number || offer.firstNumber <= number) fail("segment numbers do not increase");
    if (offer.rowsBefore < rows) fail("row counts do not increase");
    if (offer.signal !== signal) fail(`it contains a segment of "${offer.signal}"`);
    number = offer.number;
    rows = offer.rowsBefore + offer.rows;
  }
  if (number > lastNumber || rows > totalRows) fail(`its totals are below those of its segments`);
}
