/** Every query that tools run on a store, one per file. @module */

export {
  type BuildPlace,
  type BuildShare,
  type DeploymentPlace,
  type DeploymentRecord,
  type KnownBuild,
  listDeployments,
  loadBuildProgress,
  loadKnownBuilds,
  saveDeployments,
} from "./deployments/deployment-tables.ts";
export { queryBuildFacts } from "./deployments/query-build-facts.ts";
export {
  type AgentScan,
  type BuildReading,
  type BuildSighting,
  buildsSettledMs,
  type LateRows,
  queryServedRequests,
  readBuilds,
  type ServedRequests,
} from "./deployments/running-builds.ts";
export { queryDatabaseTraffic } from "./diagnosis/query-database-traffic.ts";
export { queryDiagnosis } from "./diagnosis/query-diagnosis.ts";
export { queryOnset } from "./diagnosis/query-onset.ts";
export { queryHosts, queryHostsNow } from "./host/query-hosts.ts";
export { queryServiceCpu } from "./host/query-service-cpu.ts";
export { queryRequestTotals } from "./incidents/query-request-totals.ts";
export { choosePoints } from "./metrics/choose-points.ts";
export { type PromqlQuery, queryPromql } from "./promql/query-promql.ts";
export { queryConnections } from "./query-connections.ts";
export { queryEdgeRed } from "./query-edge-red.ts";
export { queryEdges } from "./query-edges.ts";
export { queryEvents } from "./query-events.ts";
export { queryHotFunctions } from "./query-hot-functions.ts";
export { queryLogServices } from "./query-log-services.ts";
export { type LogsQuery, type LogsStore, queryLogPatterns, queryLogs } from "./query-logs.ts";
export { queryMetricLosses, queryTrafficLosses } from "./query-losses.ts";
export { type MetricNamesQuery, queryMetricNames } from "./query-metric-names.ts";
export { type MetricQuery, metricStepMs, queryMetric } from "./query-metrics.ts";
export { queryProfile } from "./query-profile.ts";
export { queryRed, type RedQuery } from "./query-red.ts";
export { queryServices } from "./query-services.ts";
export { querySpanEdges } from "./query-span-edges.ts";
export { querySpanRed } from "./query-span-red.ts";
export { querySpanProcesses, querySpanServices, queryTrace, queryTraces, type TraceStore, type TracesQuery } from "./query-traces.ts";
export { hasRequests } from "./request-parts.ts";
export { BaselineCache } from "./summary/baseline-cache.ts";
export { queryHealthEvents } from "./summary/query-health-events.ts";
export { queryRouteHealth } from "./summary/query-route-health.ts";
export { queryServiceDetails } from "./summary/query-service-details.ts";
export { querySummary } from "./summary/query-summary.ts";
