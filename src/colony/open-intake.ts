/** How signals reach the store: rows and segments pulled from agents, and OTLP sent to the colony itself. */

import type { ResourceStack } from "../base/resource-stack.ts";
import { addOtlpMetrics } from "../otlp/index.ts";
import type { ColonyStore } from "../store/colony/index.ts";
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
    ingest: new Ingest(store, { onStored: (pulls) => pulls.some(hasInstances) && onInstances() }),
    signals: signals.map((signal) => signal.name),
    settings,
    auditHead: () => audit.recorder.head,
    clock,
    log: log.child("pull"),
    metrics,
    countedBy: (agentId) => registry.recorders.countedBy(agentId),
    onContact: (agentId, lagMs) => registry.contact(agentId, lagMs),
    onLink: (agentId, reading) => registry.measured(agentId, reading),
    onStoreProblem: (agentId, problem) => registry.storeProblem(agentId, problem),
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
