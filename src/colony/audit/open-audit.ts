/** Opens the colony's audit: its chain, its recorder, pending approvals, and the backend of the audit tools. */

import type { Clock } from "../../base/clock.ts";
import type { Logger } from "../../base/log.ts";
import type { ColonyConfig } from "../../config/index.ts";
import { openColonyAudit } from "../../store/audit/index.ts";
import { type ColonyStore } from "../../store/colony/index.ts";
import { audit } from "../../store/signals/index.ts";
import type { AgentRegistry } from "../registry/agent-registry.ts";
import { createAuditBackend } from "./audit-backend.ts";
import { AuditRecorder } from "./audit-recorder.ts";
import { AuditWatch } from "./audit-watch.ts";
import { PendingApprovals } from "./pending-approvals.ts";
import { QueryBudget } from "./query-budget.ts";

export interface OpenAuditOptions {
  /** Holds entries until they are committed. */
  journalFile: string;
  colonyId: string;
  owner: { uid: number; gid: number } | undefined;
  store: ColonyStore;
  registry: Pick<AgentRegistry, "find" | "entries">;
  config: () => ColonyConfig;
  clock: Clock;
  log: Logger;
}

/** Approximate size of an entry on disk. */
const entryBytes = 300;
/** Share of the store that audit chains may take. */
const storeShare = 0.1;
const minRows = 50_000;

export async function openAudit({ journalFile, colonyId, owner, store, registry, config, clock, log }: OpenAuditOptions) {
  const maxAgeMs = config().retentionMs[audit.name] ?? audit.retention.colony.maxAgeMs;
  const maxRows = Math.max(minRows, Math.floor((config().store.maxSizeBytes * storeShare) / entryBytes));
  const chain = await openColonyAudit(store, { maxAgeMs, maxRows, clock });
  const recorder = await AuditRecorder.open({ chain, journalFile, owner, clock, log }, store);
  const approvals = new PendingApprovals({ store, registry, audit: recorder, allowsOwn: () => config().approvals.allowOwn, clock, log });
  const backend = createAuditBackend({
    settled: () => recorder.settled(),
    store,
    chain,
    colonyId,
    registry,
    approvals,
    wallMs: () => clock.wallMs(),
  });
  const watch = new AuditWatch({ store, registry, clock, log });
  const queries = new QueryBudget();
  const recordCounted = async (): Promise<void> => {
    for (const { caller, queries: count, sinceMs } of queries.takeCounted(performance.now()))
      await recorder.note({
        kind: "sql",
        phase: "ended",
        caller,
        target: "colony",
        reason: "counted",
        details: { queries: count, sinceMs },
      });
  };
  return { recorder, approvals, backend, watch, queries, recordCounted, prune: () => chain.prune() };
}

export type OpenedAudit = Awaited<ReturnType<typeof openAudit>>;
