/** The agent's HTTP routes: health and metrics on the local port, everything else on the owner's unix socket. */

import { CoralError } from "../base/errors.ts";
import type { Logger } from "../base/log.ts";
import { addMetricIntakeMetrics, type MetricIntake, type OtlpIntake } from "../otlp/index.ts";
import { type Authorize, createHttpRoutes, type HttpHandler, localCommandRoute } from "../transport/index.ts";
import { createAgentMetrics } from "./agent-metrics.ts";
import { agentRoutes } from "./agent-routes.ts";
import { type AgentStatusSources, readAgentStatus } from "./agent-status.ts";
import type { AuditLog } from "./audit/audit-log.ts";
import { auditRoutes } from "./audit/audit-routes.ts";
import type { Collectors } from "./collectors.ts";
import type { ExecuteService } from "./commands/execute-service.ts";
import type { DatabaseService } from "./databases/database-service.ts";
import type { ColonyLink } from "./link/colony-link.ts";
import type { RuntimeWatch } from "./link/runtime-watch.ts";
import type { Managed } from "./open-managed.ts";

/** What the routes read from or act on. */
export interface AgentHttpParts {
  status: AgentStatusSources & { link: ColonyLink };
  managed: Managed;
  collectors: Pick<Collectors, "rescan">;
  watch: RuntimeWatch;
  commands: ExecuteService;
  databases: DatabaseService;
  audit: AuditLog;
  otlp: OtlpIntake;
  metricIntake: MetricIntake;
  /** Cancels running requests. */
  signal: AbortSignal;
  log: Logger;
}

/**
 * Two route tables over the same parts: the local port has no authorisation, so it serves health and metrics only; the unix socket checks the
 * caller's uid.
 */
export function createAgentHttp(parts: AgentHttpParts): HttpHandler {
  const { status, managed, collectors, watch, commands, otlp, metricIntake, signal, log } = parts;
  const { agentId, hostname, store, link, clock } = status;
  const metrics = createAgentMetrics(store, link, status.traffic, () => otlp.status());
  addMetricIntakeMetrics(metrics, () => metricIntake.counts);
  return createHttpRoutes({
    routes: [
      ...agentRoutes({
        status: () => readAgentStatus(status),
        runtime: watch,
        signal,
        registry: managed.registry,
        databases: parts.databases,
        healthOf: (port) => managed.services.healthOf(port),
        discoveredAt: (port, protocol) => managed.facts.discoveredAt(port, protocol),
        onChange: () => {
          managed.checks.refresh();
          collectors.rescan();
        },
      }),
      localCommandRoute({
        agent: { agentId, hostname },
        execute: (requests, signal) => commands.execute(requests, signal),
        refused: ({ commandId, kind, command, through, reason }, { name, from }) =>
          parts.audit.note({ kind, phase: "denied", command_id: commandId, caller: name, caller_from: from, through, command, reason }),
      }),
      ...auditRoutes({ agentId, hostname, log: parts.audit, store, clock }),
    ],
    authorize: localOnly,
    notReady: () => (status.writeProblem() === "" ? undefined : `cannot store rows: ${status.writeProblem()}`),
    metrics: () => metrics.text(),
    log,
  });
}

/** Agents have no tokens. */
const localOnly: Authorize = (caller) => {
  if (caller.kind === "local") return { name: `local:uid=${caller.uid}` };
  throw new CoralError({
    code: "not-permitted",
    message: "Cannot serve this request: this port serves health and metrics only; use the agent's unix socket or the colony",
  });
};
