/** The colony's periodic tasks and their intervals. */

import { repeat } from "../base/background.ts";
import type { Clock } from "../base/clock.ts";
import type { Logger } from "../base/log.ts";
import type { ColonyStore } from "../store/colony/index.ts";
import type { OpenedAudit } from "./audit/open-audit.ts";
import type { StoreWrites } from "./core/store-writes.ts";
import type { DeploymentWatch } from "./deployments/deployment-watch.ts";
import type { DiscoveryLoop } from "./discovery/discovery-loop.ts";
import type { HealthWatch } from "./health/health-watch.ts";
import type { Inbox } from "./inbox/open-inbox.ts";
import type { IncidentWatch } from "./incidents/incident-watch.ts";
import type { Webhook } from "./incidents/webhook.ts";
import type { AgentRegistry } from "./registry/agent-registry.ts";
import type { ServerCertificate } from "./registry/server-certificate.ts";

export interface ColonyLoopParts {
  store: ColonyStore;
  writes: StoreWrites;
  registry: AgentRegistry;
  audit: OpenedAudit;
  discovery: DiscoveryLoop;
  deployments: DeploymentWatch;
  health: HealthWatch;
  incidents: IncidentWatch;
  webhook: Webhook;
  /** Absent: the colony does not receive OTLP itself. */
  inbox: Inbox | undefined;
  certificate: ServerCertificate;
  onCertificate: () => void;
  clock: Clock;
  log: Logger;
}

const healthIntervalMs = 1_000;
const writesIntervalMs = 5_000;
const flushIntervalMs = 30_000;
const deriveIntervalMs = 5_000;
const rollupIntervalMs = 60_000;
const pruneIntervalMs = 60_000;
const auditPruneIntervalMs = 600_000;
const auditWatchIntervalMs = 15_000;
const deploymentIntervalMs = 10_000;
const serviceHealthIntervalMs = 10_000;
const incidentIntervalMs = 5_000;
const certificateIntervalMs = 3_600_000;

/** One promise per loop; each resolves on abort. A loop's name appears in the log as `<name> failed: …` and `<name> works again`. */
export function runColonyLoops(parts: ColonyLoopParts, signal: AbortSignal): Promise<void>[] {
  const {
    store,
    writes,
    registry,
    audit,
    discovery,
    deployments,
    health,
    incidents,
    webhook,
    inbox,
    certificate,
    onCertificate,
    clock,
    log,
  } = parts;
  const every = (intervalMs: number, name: string, work: () => Promise<unknown>): Promise<void> =>
    repeat(name, intervalMs, work, log, signal);
  return [
    every(healthIntervalMs, "Agent health check", () => registry.reportHealthChanges()),
    every(writesIntervalMs, "Watching the store", () => writes.check(store)),
    every(flushIntervalMs, "Writing last contacts", () => registry.flush()),
    every(deriveIntervalMs, "Deriving span counts", () => store.derive()),
    every(rollupIntervalMs, "Roll-up", () => store.rollup()),
    every(pruneIntervalMs, "Retention", () => store.prune()),
    every(auditPruneIntervalMs, "Audit retention", () => audit.prune()),
    every(auditWatchIntervalMs, "Checking pulled audit entries", () => audit.watch.checkPulled()),
    every(auditWatchIntervalMs, "Recording query counts", () => audit.recordCounted()),
    every(auditPruneIntervalMs, "Comparing agents' audits", () => audit.watch.checkAgents(signal)),
    discovery.run(signal),
    every(deploymentIntervalMs, "Deployment detection", () => deployments.step()),
    every(serviceHealthIntervalMs, "Watching the health of services", () => health.step(signal)),
    every(incidentIntervalMs, "Watching for incidents", () => incidents.step(signal)),
    webhook.run(signal),
    ...(inbox ? inbox.run(signal) : []),
    every(certificateIntervalMs, "Certificate renewal", () => certificate.renewWhenDue(clock.wallMs(), onCertificate)),
  ];
}
