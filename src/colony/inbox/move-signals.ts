/** Moves rows and segments from the colony's own inbox into its store, exactly once, like a pull without the network. */

import { CoralError } from "../../base/errors.ts";
import type { AgentStore } from "../../store/agent/index.ts";
import type { ColonyStore } from "../../store/colony/index.ts";
import type { AgentSegments, ColonySegments, PulledSignal, SegmentEntry, SegmentOffer } from "../../store/segments/index.ts";
import { segmentSignals } from "../../store/signals/index.ts";
import type { SignalSlice } from "../../store/tables/index.ts";

const maxRows = 10_000;
const maxBytes = 4 * 1024 * 1024;
const maxSegments = 16;

/** Moves one batch of table rows. True when there may be more. */
export async function moveRows(
  from: Pick<AgentStore, "epoch" | "readAfter" | "losses">,
  to: Pick<ColonyStore, "checkpoints" | "applyPulls">,
  agentId: string,
  signals: readonly string[],
): Promise<boolean> {
  const { epoch } = from;
  const { afterSeq } = to.checkpoints(agentId, epoch);
  const slices: SignalSlice[] = [];
  for (const signal of signals) {
    const slice = await from.readAfter(signal, afterSeq.get(signal) ?? 0, { maxRows, maxBytes });
    const isGap = slice.oldestSeq > (afterSeq.get(signal) ?? 0) + 1;
    if (slice.batch || isGap) slices.push(slice);
  }
  if (slices.length === 0) return false;
  const [outcome] = await to.applyPulls([{ agentId, epoch, slices, losses: from.losses() }]);
  if (outcome?.error) throw CoralError.from(outcome.error);
  return slices.some(({ batch, nextSeq }) => batch !== undefined && batch.lastSeq + 1 < nextSeq);
}

/** Moves up to 16 segments of each signal. True when there are more. */
export async function moveSegments(
  { epoch, segments }: { epoch: string; segments: AgentSegments },
  to: Pick<ColonySegments, "checkpoints" | "receive" | "commit">,
  agentId: string,
): Promise<boolean> {
  const checkpoints = to.checkpoints(agentId, epoch);
  const pulled: PulledSignal[] = [];
  for (const { name } of segmentSignals) {
    const { entries, lastNumber, totalRows, more } = segments.listAfter(name, checkpoints.get(name) ?? 0, maxSegments);
    const filters = await segments.lookupFilters(entries);
    const offers: SegmentOffer[] = entries.map((entry) => offerOf(name, entry, filters.get(entry)));
    for (const offer of offers) if (!offer.isLost) await to.receive(agentId, epoch, offer, segments.read(name, offer.number, 0));
    pulled.push({ signal: name, lastNumber, totalRows, offers, isAll: !more });
  }
  const hasNews = pulled.some(({ offers, lastNumber, signal }) => offers.length > 0 || lastNumber > (checkpoints.get(signal) ?? 0));
  if (hasNews) await to.commit({ agentId, epoch, signals: pulled });
  return pulled.some(({ isAll }) => !isAll);
}

function offerOf(signal: string, entry: SegmentEntry, lookupFilter: Uint8Array | undefined): SegmentOffer {
  const { firstNumber, number, rowsBefore, rows, sizeBytes, minTimeUs, maxTimeUs, services, schemaVersion, sha256, state } = entry;
  return {
    signal,
    firstNumber,
    number,
    rowsBefore,
    rows,
    sizeBytes,
    minTimeUs,
    maxTimeUs,
    services,
    ...(lookupFilter && lookupFilter.length > 0 && { lookupFilter }),
    schemaVersion,
    sha256,
    isLost: state === "lost",
  };
}
