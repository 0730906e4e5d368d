/** Rows of tables from the colony's own inbox into its store, each exactly once: as a pull from an agent, without the way between. */

import { CoralError } from "../../base/errors.ts";
import type { AgentStore } from "../../store/agent/index.ts";
import type { ColonyStore } from "../../store/colony/index.ts";
import type { SignalSlice } from "../../store/tables/index.ts";

const maxRows = 10_000;
const maxBytes = 4 * 1024 * 1024;

/** True when there may be more. */
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
