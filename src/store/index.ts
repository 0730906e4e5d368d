/**
 * The store room: the only one that knows DuckDB. An Engine owns the process's one instance; an AgentStore or a ColonyStore owns one file
 * in it. Signals are declared with `defineSignal` and listed in `signals`; everything else follows from the declaration.
 * @module
 */

export { type AgentStore, type AgentStoreOptions, openAgentStore } from "./agent-store.ts";
export { AuditWriter } from "./audit/audit-writer.ts";
export { type ColonyAudit, type ColonyAuditOptions, isOwnEntry, openColonyAudit } from "./audit/colony-audit.ts";
export { CopyCheck, type CopyProblems } from "./audit/copy-check.ts";
export {
  type AuditEntryRecord,
  type AuditQuery,
  type AuditRecord,
  openCommands,
  queryAudit,
  queryAuditEntries,
} from "./audit/query-audit.ts";
export { type CopiedChain, copiedLinks, ownLinks, verifyCopies, verifyOwnChain } from "./audit/verify-audit.ts";
export {
  type AgentCheckpoint,
  type ColonyStore,
  type ColonyStoreOptions,
  openColonyStore,
  type PullOutcome,
} from "./colony-store.ts";
export type { ColumnInfo, RowBatch } from "./column-codec.ts";
export type { Opened, Transaction } from "./database.ts";
export type { Columns, RowOf, SampleTime, Signal } from "./define-signal.ts";
export {
  type DeploymentPlace,
  type DeploymentRecord,
  type KnownBuild,
  listDeployments,
  loadKnownBuilds,
  saveDeployments,
} from "./deployments/deployment-tables.ts";
export { queryBuildFacts } from "./deployments/query-build-facts.ts";
export { queryRunningBuilds, querySpanVersions, type RunningBuild } from "./deployments/running-builds.ts";
export { DiscoveryCycle, type DiscoveryCycleOptions, type DiscoveryCycleResult } from "./discovery/discovery-cycle.ts";
export { type DiscoverySettings, defaultDiscoverySettings } from "./discovery/discovery-settings.ts";
export { addressesWithoutName, loadEndpointNames, type ResolvedEndpoint, storeEndpointNames } from "./discovery/endpoint-resolution.ts";
export { type NamingLimits, storeNamingWish } from "./discovery/naming-wishes.ts";
export { type Engine, type EngineOptions, openEngine } from "./engine.ts";
export type { Gap, GapFilter } from "./gap-ledger.ts";
export type { LossCount } from "./loss-counts.ts";
export { choosePoints, type PointSource } from "./metrics/choose-points.ts";
export { type PromqlAnswer, type PromqlQuery, type PromqlSeriesRow, queryPromql } from "./promql/query-promql.ts";
export type { PublishedView } from "./published-views.ts";
export type { AgentPull } from "./pull-plan.ts";
export type {
  HostCgroupRow,
  HostFactsRow,
  HostMetricRow,
  HostProcessRow,
  HostSampleRow,
  HostSeriesRow,
} from "./queries/host-facts.ts";
export {
  type ConnectionsAnswer,
  type ConnectionsQuery,
  queryConnections,
  type ServiceConnectionsRow,
} from "./queries/query-connections.ts";
export { type EdgeRedAnswer, type EdgeRedQuery, type EdgeRedRow, queryEdgeRed } from "./queries/query-edge-red.ts";
export { type EdgeEndRow, type EdgeRow, type EdgesQuery, type EdgesResult, queryEdges } from "./queries/query-edges.ts";
export { type EventRow, type EventsQuery, queryEvents } from "./queries/query-events.ts";
export { type HostsQuery, queryHosts } from "./queries/query-hosts.ts";
export { type HostNowRow, queryHostsNow } from "./queries/query-hosts-now.ts";
export { queryLogServices } from "./queries/query-log-services.ts";
export {
  type LogPatternRow,
  type LogPatternsAnswer,
  type LogRow,
  type LogsAnswer,
  type LogsQuery,
  type LogsStore,
  queryLogPatterns,
  queryLogs,
} from "./queries/query-logs.ts";
export { type MetricLossRow, queryMetricLosses } from "./queries/query-metric-losses.ts";
export { type MetricNameRow, type MetricNamesQuery, queryMetricNames } from "./queries/query-metric-names.ts";
export {
  type MetricAnswer,
  type MetricGroupRow,
  type MetricQuery,
  metricStepMs,
  queryMetric,
} from "./queries/query-metrics.ts";
export { queryRed, type RedAnswer, type RedGroupBy, type RedGroupRow, type RedQuery } from "./queries/query-red.ts";
export { queryServiceCpu, type ServiceCpuRow } from "./queries/query-service-cpu.ts";
export {
  queryServices,
  type ServiceAtAgentRow,
  type ServicePortRow,
  type ServiceProcessRow,
  type ServicesQuery,
} from "./queries/query-services.ts";
export { querySpanEdges, type SpanEdgeRow, type SpanEdgesAnswer, type SpanEdgesQuery } from "./queries/query-span-edges.ts";
export {
  querySpanRed,
  type SpanRedAnswer,
  type SpanRedGroupBy,
  type SpanRedQuery,
  type SpanRedRow,
  type SpanRole,
} from "./queries/query-span-red.ts";
export {
  querySpanProcesses,
  querySpanServices,
  queryTrace,
  queryTraces,
  type SpanProcessRow,
  type SpanRow,
  type TraceAnswer,
  type TraceQuery,
  type TraceRow,
  type TraceStore,
  type TracesAnswer,
  type TracesQuery,
} from "./queries/query-traces.ts";
export { queryTrafficLosses, type TrafficLossRow } from "./queries/query-traffic-losses.ts";
export type { RedFilterQuery, RedResolution } from "./queries/red-parts.ts";
export { type ReadOnlySqlOptions, type ReadOnlySqlResult, runReadOnlySql } from "./read-only-sql.ts";
export {
  type AgentConflict,
  type AgentRecord,
  type AgentRegistration,
  type AgentTouch,
  type EventRecord,
  insertToken,
  listAgents,
  listConflicts,
  listTokens,
  recordConflict,
  recordEvent,
  revokeAgent,
  revokeToken,
  type TokenRecord,
  type TokenUse,
  touchAgents,
  upsertAgent,
  useToken,
} from "./registry-tables.ts";
export type { RollupResult } from "./rollups.ts";
export {
  forgetRuntime,
  listRuntimeHistory,
  loadRuntimes,
  type RuntimeChange,
  type RuntimeRecord,
  storeRuntime,
} from "./runtime-tables.ts";
export {
  type AgentSegments,
  type AgentSegmentsOptions,
  type SegmentListing,
  type SegmentStats,
} from "./segments/agent-segments.ts";
export { batchFromSegmentRows, type SegmentRow } from "./segments/batch-builder.ts";
export type { ColonySegments, ColonySegmentsOptions, SegmentPullOutcome } from "./segments/colony-segments.ts";
export type {
  SegmentColumnSpec,
  SegmentColumns,
  SegmentColumnType,
  SegmentSignal,
} from "./segments/define-segment-signal.ts";
export type { PulledSignal, SegmentOffer, SegmentPull } from "./segments/plan-segments.ts";
export { type DecodeBodies, type DecodedBodies, sealSegment } from "./segments/seal-segment.ts";
export {
  type BatchColumn,
  type BoolColumn,
  type DictionaryColumn,
  type DoubleColumn,
  type FixedColumn,
  type Int32Column,
  type Int64Column,
  isPresent,
  type SegmentBatch,
  type TextColumn,
} from "./segments/segment-batch.ts";
export type { SegmentEntry } from "./segments/segment-manifest.ts";
export type { SealedSegment, SealJob, SealSegment, SegmentSummary } from "./segments/segment-sealing.ts";
export { hexSql, type SegmentRange, type SegmentReader, type SegmentSource } from "./segments/segment-source.ts";
export { readWriteAhead, type WriteAheadContent, type WriteAheadRecord } from "./segments/write-ahead.ts";
export { writeSegmentFile } from "./segments/write-segment-file.ts";
export type { ReadLimits, SeqRange, SignalHead, SignalSlice } from "./signal-slice.ts";
export {
  type AuditEntry,
  type AuditRow,
  audit,
  auditChainColumns,
  auditChainRow,
  blankAuditEntry,
  linkAuditEntry,
} from "./signals/audit.ts";
export { connection, event, serviceInstance } from "./signals/discovery.ts";
export { host, hostCgroup, hostCpu, hostDisk, hostInterface, hostMount, hostProcess } from "./signals/host.ts";
export { derivedSignals, segmentSignals, signals } from "./signals/index.ts";
export { logPattern, logRecord } from "./signals/log.ts";
export { metricLoss, metricPoint, metricSeries } from "./signals/metrics.ts";
export { span } from "./signals/span.ts";
export { red, trafficLoss } from "./signals/traffic.ts";
export type { Row, SqlParameter, SqlParameters, SqlValue } from "./sql-values.ts";
export type { PruneResult, StoreStats } from "./store-stats.ts";
export { BaselineMemory } from "./summary/baseline-memory.ts";
export { queryServiceDetails } from "./summary/query-service-details.ts";
export { querySummary } from "./summary/query-summary.ts";
