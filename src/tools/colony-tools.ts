import { agentExec } from "./agent-exec.ts";
import { decideApproval, listApprovals } from "./approval-tools.ts";
import { getAudit, listAudit, verifyAudit } from "./audit-tools.ts";
import type { ColonyBackend } from "./backend.ts";
import { captureRequests } from "./capture-requests.ts";
import { createToken } from "./create-token.ts";
import type { Tool } from "./define-tool.ts";
import { getEgress, getIngress } from "./get-endpoints.ts";
import { getExternalDependencies } from "./get-external-dependencies.ts";
import { getRuntimeContext } from "./get-runtime-context.ts";
import { getStatus } from "./get-status.ts";
import { getTopology } from "./get-topology.ts";
import { listAgents } from "./list-agents.ts";
import { listEvents } from "./list-events.ts";
import { listServices } from "./list-services.ts";
import { listTokens } from "./list-tokens.ts";
import { markDeployment } from "./mark-deployment.ts";
import { queryConnections } from "./query-connections.ts";
import { queryDeployments } from "./query-deployments.ts";
import { queryHost } from "./query-host.ts";
import { queryLogs } from "./query-logs.ts";
import { queryMetrics } from "./query-metrics.ts";
import { queryRed } from "./query-red.ts";
import { querySql } from "./query-sql.ts";
import { querySummary } from "./query-summary.ts";
import { queryTop } from "./query-top.ts";
import { queryTraces } from "./query-traces.ts";
import { resolveTargetsTool } from "./resolve-targets.ts";
import { revokeAgent } from "./revoke-agent.ts";
import { revokeToken } from "./revoke-token.ts";

/** Every tool of a colony. A new one is a file beside this one and a line here. */
export const colonyTools: readonly Tool<ColonyBackend>[] = [
  getStatus,
  listAgents,
  getRuntimeContext,
  listServices,
  getTopology,
  getExternalDependencies,
  getIngress,
  getEgress,
  querySummary,
  queryDeployments,
  queryTop,
  queryRed,
  queryConnections,
  queryTraces,
  captureRequests,
  queryLogs,
  queryMetrics,
  queryHost,
  querySql,
  listEvents,
  resolveTargetsTool,
  agentExec,
  markDeployment,
  createToken,
  listTokens,
  revokeToken,
  revokeAgent,
  listAudit,
  getAudit,
  verifyAudit,
  listApprovals,
  decideApproval,
];
