import type { SignalRetention } from "../signals/define-signal.ts";
import type { ChangingSegments } from "./segment-catalog.ts";
import { deleteEntries, type SegmentEntry } from "./segment-manifest.ts";

export interface RetainedSegments {
  entries: readonly SegmentEntry[];
  retention: SignalRetention;
}

/** Evicts down to this share of the limit, so that not every new segment causes an eviction. */
const slack = 0.95;

/** Removes expired segments from the manifest. Their files are unlinked later. */
export async function removeExpired(
  { database, catalog, unlinks, crashPoints, noteKept }: ChangingSegments,
  signals: readonly RetainedSegments[],
  maxBytes: number,
  nowUs: number,
): Promise<void> {
  const expired = chooseExpired(signals, maxBytes, nowUs);
  if (expired.length === 0) return;
  const gone = new Set(expired);
  await database.write(
    async (transaction) => {
      await deleteEntries(transaction, expired);
      for (const { entries } of signals) {
        const signal = entries.find((entry) => gone.has(entry))?.signal;
        const oldestUs = entries.reduce((oldest, entry) => (gone.has(entry) ? oldest : Math.min(oldest, entry.storedAtUs)), nowUs);
        if (signal !== undefined) await noteKept?.(transaction, signal, oldestUs);
      }
    },
    () => catalog.remove(expired),
  );
  crashPoints?.reached("prune-committed");
  for (const entry of expired) unlinks.add(catalog.fileOf(entry));
}

/**
 * Segments to remove: those older than their signal's maximum age, and, if all together exceed `maxBytes`, the oldest of the signals that
 * use most relative to their weight. Keeps the newest segment of each signal.
 */
function chooseExpired(signals: readonly RetainedSegments[], maxBytes: number, nowUs: number): SegmentEntry[] {
  const expired: SegmentEntry[] = [];
  const lines = signals.map(({ entries, retention }) => {
    const oldestUs = nowUs - retention.maxAgeMs * 1_000;
    const line = entries.toSorted((a, b) => a.storedAtUs - b.storedAtUs || a.number - b.number);
    const young = line.findIndex(({ storedAtUs }) => storedAtUs >= oldestUs);
    expired.push(...line.slice(0, young < 0 ? line.length : young));
    const left = young < 0 ? [] : line.slice(young);
    return { left, next: 0, weight: Math.max(1e-6, retention.weight), sizeBytes: left.reduce((total, entry) => total + bytesOf(entry), 0) };
  });
  let totalBytes = lines.reduce((total, { sizeBytes }) => total + sizeBytes, 0);
  if (totalBytes <= maxBytes) return expired;
  while (totalBytes > maxBytes * slack) {
    const able = lines.filter(({ left, next }) => next < left.length - 1);
    const line = able.reduce(
      (most: (typeof able)[number] | undefined, one) =>
        most === undefined || one.sizeBytes / one.weight > most.sizeBytes / most.weight ? one : most,
      undefined,
    );
    const entry = line?.left[line.next];
    if (line === undefined || entry === undefined) break;
    line.next++;
    line.sizeBytes -= bytesOf(entry);
    totalBytes -= bytesOf(entry);
    expired.push(entry);
  }
  return expired;
}

function bytesOf({ sizeBytes, state }: SegmentEntry): number {
  return state === "stored" ? sizeBytes : 0;
}
