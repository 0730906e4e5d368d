/** Splits an agent's list of segments into what is pulled in one turn, and into commits. */

import type { SegmentInfo, SegmentList } from "../../proto/coral/agent/v1/agent_pb.ts";
import type { PulledSignal, SegmentOffer } from "../../store/segments/index.ts";

/** Segments requested from an agent, per signal. */
export const maxSegmentsPerTurn = 64;
/** Beyond this it is another agent's turn. */
const maxBytesPerTurn = 128 * 1024 * 1024;
/** Large enough to amortize a commit, small enough to store while the next batch streams. */
const maxSegmentsPerCommit = 8;
const maxBytesPerCommit = 64 * 1024 * 1024;

export interface SegmentBatches {
  /** One element per commit, in order: its segments by signal, oldest first. */
  batches: PulledSignal[][];
  /** Whether the agent has no further segments. */
  isAll: boolean;
}

/** Takes at least one segment of each list that has any. */
export function segmentBatches(lists: readonly SegmentList[]): SegmentBatches {
  let open: PulledSignal[] = [];
  const batches = [open];
  let isAll = true;
  let [openSegments, openBytes, turnBytes] = [0, 0, 0];
  for (const list of lists) {
    const { signal } = list;
    const taken = takeOffers(list, maxBytesPerTurn - turnBytes);
    let run: SegmentOffer[] = [];
    const endRun = (isEnd: boolean): void => {
      open.push({ signal, lastNumber: Number(list.lastNumber), totalRows: Number(list.totalRows), offers: run, isAll: isEnd });
      run = [];
    };
    for (const offer of taken) {
      if (openSegments >= maxSegmentsPerCommit || (openSegments > 0 && openBytes + offer.sizeBytes > maxBytesPerCommit)) {
        if (run.length > 0) endRun(false);
        open = [];
        batches.push(open);
        [openSegments, openBytes] = [0, 0];
      }
      run.push(offer);
      openSegments++;
      openBytes += offer.sizeBytes;
      turnBytes += offer.sizeBytes;
    }
    const isWhole = !list.more && taken.length === list.segments.length;
    endRun(isWhole);
    isAll &&= isWhole;
  }
  return { batches, isAll };
}

function takeOffers(list: SegmentList, maxBytes: number): SegmentOffer[] {
  const taken: SegmentOffer[] = [];
  let sizeBytes = 0;
  for (const info of list.segments) {
    const offer = toOffer(list.signal, info);
    sizeBytes += offer.sizeBytes;
    if (taken.length > 0 && sizeBytes > maxBytes) break;
    taken.push(offer);
  }
  return taken;
}

function toOffer(signal: string, info: SegmentInfo): SegmentOffer {
  return {
    signal,
    firstNumber: Number(info.firstNumber),
    number: Number(info.number),
    rowsBefore: Number(info.rowsBefore),
    rows: Number(info.rows),
    sizeBytes: Number(info.sizeBytes),
    minTimeUs: Number(info.minTimeUs),
    maxTimeUs: Number(info.maxTimeUs),
    services: info.manyServices ? null : info.services,
    ...(info.lookupFilter.length > 0 && { lookupFilter: info.lookupFilter }),
    schemaVersion: info.schemaVersion,
    sha256: info.sha256,
    isLost: info.lost,
  };
}
