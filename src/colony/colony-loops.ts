/** What a colony does by itself while it runs, and how often. */

import type { Clock } from "../base/clock.ts";
import type { Logger } from "../base/log.ts";
import { repeat } from "../base/repeat.ts";
import type { ColonyStore } from "../store/colony/index.ts";
import type { OpenedAudit } from "./audit/open-audit.ts";
import type { DeploymentWatch } from "./deployments/deployment-watch.ts";
import type { DiscoveryLoop } from "./discovery/discovery-loop.ts";
import type { Inbox } from "./inbox/open-inbox.ts";
import type { AgentRegistry } from "./registry/agent-registry.ts";
import type { OwnCertificate } from "./registry/own-certificate.ts";

export interface ColonyLoopParts {
  store: ColonyStore;
  registry: AgentRegistry;
  audit: OpenedAudit;
  discovery: DiscoveryLoop;
  deployments: DeploymentWatch;
  /** Absent: programs send nothing to the colony itself. */
  inbox: Inbox | undefined;
  certificate: OwnCertificate;
  onCertificate: () => void;
  clock: Clock;
  log: Logger;
}

const healthIntervalMs = 1_000;
const flushIntervalMs = 10_000;
const deriveIntervalMs = 5_000;
const rollupIntervalMs = 60_000;
const pruneIntervalMs = 60_000;
const auditPruneIntervalMs = 600_000;
const auditWatchIntervalMs = 15_000;
const deploymentIntervalMs = 10_000;
const certificateIntervalMs = 3_600_000;

/** One promise per loop; each resolves when aborted. */
export function runColonyLoops(parts: ColonyLoopParts, signal: AbortSignal): Promise<void>[] {
  const { store, registry, audit, discovery, deployments, inbox, certificate, onCertificate, clock, log } = parts;
  const every = (intervalMs: number, name: string, work: () => Promise<unknown>): Promise<void> =>
    repeat(name, intervalMs, work, log, signal);
  return [
    every(healthIntervalMs, "Watching health", () => registry.reportHealthChanges()),
    every(flushIntervalMs, "Writing contacts", () => registry.flush()),
    every(deriveIntervalMs, "Counting spans", () => store.derive()),
    every(rollupIntervalMs, "Roll-up", () => store.rollup()),
    every(pruneIntervalMs, "Retention", () => store.prune()),
    every(auditPruneIntervalMs, "Retention of the audit", () => audit.prune()),
    every(auditWatchIntervalMs, "Watching the audit", () => audit.watch.checkPulled()),
    every(auditWatchIntervalMs, "Counting queries", () => audit.tellCounted()),
    every(auditPruneIntervalMs, "Asking agents about the audit", () => audit.watch.askAgents(signal)),
    discovery.run(signal),
    every(deploymentIntervalMs, "Watching deployments", () => deployments.step()),
    ...(inbox ? inbox.run(signal) : []),
    every(certificateIntervalMs, "Renewing the colony's certificate", () => certificate.renewWhenDue(clock.wallMs(), onCertificate)),
  ];
}
