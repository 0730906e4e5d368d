import { getRuntimeContext } from "./agents/get-runtime-context.ts";
import { listAgents } from "./agents/list-agents.ts";
import { revokeAgent } from "./agents/revoke-agent.ts";
import { decideApproval, listApprovals } from "./audit/approval-tools.ts";
import { getAudit, listAudit, verifyAudit } from "./audit/audit-tools.ts";
import { agentExec } from "./commands/agent-exec.ts";
import { resolveTargetsTool } from "./commands/resolve-targets.ts";
import type { ColonyBackend } from "./contract/backend.ts";
import type { Tool } from "./contract/define-tool.ts";
import { queryDatabase } from "./databases/query-database.ts";
import { markDeployment } from "./deployments/mark-deployment.ts";
import { queryDeployments } from "./deployments/query-deployments.ts";
import { diagnoseTool } from "./diagnosis/diagnose-tool.ts";
import { getEvidence } from "./diagnosis/get-evidence.ts";
import { queryHost } from "./host/query-host.ts";
import { listIncidents } from "./incidents/list-incidents.ts";
import { listObjectives, removeObjective, setObjective } from "./incidents/slo-tools.ts";
import { verifyIncident } from "./incidents/verify-incident.ts";
import { whatIf } from "./incidents/what-if.ts";
import { getEgress, getIngress } from "./network/get-endpoints.ts";
import { getExternalDependencies } from "./network/get-external-dependencies.ts";
import { getTopology } from "./network/get-topology.ts";
import { queryConnections } from "./network/query-connections.ts";
import { profileFunctions } from "./profile/query-profile.ts";
import { listEvents } from "./services/list-events.ts";
import { listServices } from "./services/list-services.ts";
import { getStatus } from "./status/get-status.ts";
import { querySummary } from "./summary/query-summary.ts";
import { queryLogs } from "./telemetry/query-logs.ts";
import { queryMetrics } from "./telemetry/query-metrics.ts";
import { querySql } from "./telemetry/query-sql.ts";
import { queryTraces } from "./telemetry/query-traces.ts";
import { createToken, listTokens, revokeToken } from "./tokens/token-tools.ts";
import { captureRequests } from "./traffic/capture-requests.ts";
import { queryRed } from "./traffic/query-red.ts";
import { queryTop } from "./traffic/query-top.ts";

/** Every tool of a colony. A new one is a file in a sub-folder and a line here. */
export const colonyTools = [
  getStatus,
  listAgents,
  getRuntimeContext,
  listServices,
  getTopology,
  getExternalDependencies,
  getIngress,
  getEgress,
  diagnoseTool,
  getEvidence,
  listIncidents,
  verifyIncident,
  whatIf,
  listObjectives,
  querySummary,
  queryDeployments,
  queryTop,
  queryRed,
  queryConnections,
  queryDatabase,
  queryTraces,
  captureRequests,
  queryLogs,
  queryMetrics,
  queryHost,
  profileFunctions,
  querySql,
  listEvents,
  resolveTargetsTool,
  agentExec,
  markDeployment,
  setObjective,
  removeObjective,
  createToken,
  listTokens,
  revokeToken,
  revokeAgent,
  listAudit,
  getAudit,
  verifyAudit,
  listApprovals,
  decideApproval,
] as const satisfies readonly Tool<ColonyBackend>[];

type ColonyTool = (typeof colonyTools)[number];

/** Result type of the named tool. */
export type ToolAnswer<Name extends ColonyTool["name"]> = Awaited<ReturnType<Extract<ColonyTool, { name: Name }>["call"]>>;
