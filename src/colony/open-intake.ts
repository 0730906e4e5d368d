/** How signals reach the store: rows and segments pulled from agents, and OTLP sent to the colony itself. */

import { CoralError } from "../base/errors.ts";
import type { ResourceStack } from "../base/resource-stack.ts";
import { addOtlpMetrics } from "../otlp/index.ts";
import { type ColonyStore, recordEvent } from "../store/colony/index.ts";
import { segmentSignals, serviceInstance, signals } from "../store/signals/index.ts";
import type { AgentPull } from "../store/tables/index.ts";
import type { OpenedAudit } from "./audit/open-audit.ts";
import type { ColonyContext } from "./core/colony-context.ts";
import type { ColonyMetrics } from "./core/colony-metrics.ts";
import { type Inbox, openInbox } from "./inbox/open-inbox.ts";
import { Ingest } from "./pull/ingest.ts";
import { PullScheduler } from "./pull/pull-scheduler.ts";
import { SegmentPuller } from "./pull/segment-puller.ts";
import type { AgentRegistry } from "./registry/agent-registry.ts";

interface IntakeParts {
  /** Called when processes of services were stored. */
  onInstances: () => void;
  store: ColonyStore;
  registry: AgentRegistry;
  audit: OpenedAudit;
  metrics: ColonyMetrics;
}

export async function openIntake(
  context: ColonyContext,
  { store, registry, audit, metrics, onInstances }: IntakeParts,
  stack: ResourceStack,
) {
  const { clock, log } = context;
  const settings = () => context.config.pull;
  const scheduler = new PullScheduler({
    store,
    ingest: new Ingest(trackingWrites(store, context), { onStored: (pulls) => pulls.some(hasInstances) && onInstances() }),
    signals: signals.map((signal) => signal.name),
    settings,
    auditHead: () => audit.recorder.head,
    clock,
    log: log.child("pull"),
    metrics,
    countedBy: (agentId) => registry.recorders.countedBy(agentId),
    onContact: (agentId, lagMs) => registry.contact(agentId, lagMs),
    onLink: (agentId, reading) => registry.measured(agentId, reading),
  });
  registry.onPullWanted = (agentId) => scheduler.pullNow(agentId);
  const segmentPuller =
    store.segments &&
    new SegmentPuller({
      segments: store.segments,
      signals: segmentSignals.map((signal) => signal.name),
      settings,
      metrics,
      log: log.child("segments"),
    });
  return { scheduler, segmentPuller, inbox: await openConfiguredInbox(context, store, metrics, stack) };
}

function hasInstances({ slices }: AgentPull): boolean {
  return slices.some(({ signal, batch }) => signal === serviceInstance.name && (batch?.rows ?? 0) > 0);
}

export type Intake = Awaited<ReturnType<typeof openIntake>>;

async function openConfiguredInbox(
  context: ColonyContext,
  store: ColonyStore,
  metrics: ColonyMetrics,
  stack: ResourceStack,
): Promise<Inbox | undefined> {
  if (!store.segments || !context.config.otlp.enabled) return undefined;
  const inbox = stack.use(await openInbox(context, store.segments, store));
  addOtlpMetrics(metrics.registry, () => inbox.status());
  return inbox;
}

/** Wraps the store to remember the last failed write for status. Once writes succeed again, an event records the outage. */
function trackingWrites(
  store: ColonyStore,
  context: Pick<ColonyContext, "writeProblem" | "clock" | "log">,
): Pick<ColonyStore, "applyPulls"> {
  let failedSinceMs: number | undefined;
  return {
    applyPulls: async (pulls) => {
      try {
        const outcomes = await store.applyPulls(pulls);
        if (failedSinceMs !== undefined) {
          const since = new Date(failedSinceMs).toISOString();
          const message = `The colony could not store rows since ${since}: ${context.writeProblem}`;
          failedSinceMs = undefined;
          const event = {
            at: Math.floor(context.clock.wallMs() * 1_000),
            kind: "store-write-failed",
            agentId: null,
            message,
            details: { since },
          };
          await recordEvent(store, event).catch((error: unknown) => context.log.warn("event not stored", { error }));
        }
        context.writeProblem = "";
        return outcomes;
      } catch (error) {
        context.writeProblem = CoralError.from(error).message;
        failedSinceMs ??= context.clock.wallMs();
        throw error;
      }
    },
  };
}
