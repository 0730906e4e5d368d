/**
 * Every operation of Coral, defined once: schemas, permission and handler against `ColonyBackend`. No `node:` imports, so that the
 * room also runs outside of Node. The CLI imports types only, so that it loads no schema library.
 *
 * @module
 */

export type {
  AgentColonyLink,
  AgentHostSummary,
  AgentOtlpStatus,
  AgentStatus,
  AgentTrafficStatus,
  RuntimeRefreshed,
} from "./agents/agent-status.ts";
export type {
  AgentServiceStatus,
  DatabaseConnected,
  ManagedServiceInfo,
  ManagedServiceList,
  ServiceCheck,
  ServiceDisconnected,
  ServicesConnected,
} from "./agents/managed-service.ts";
export { colonyTools, type ToolAnswer } from "./colony-tools.ts";
export { resolveTargets, selectorText, usableTargets } from "./commands/command-targets.ts";
export type { ColonyBackend, ColonyFacts, CreateTokenRequest, DatabaseProblem, LossFact } from "./contract/backend.ts";
export { commonInputs } from "./contract/common-inputs.ts";
export { defineTool, type Permission, permissions, permits, type Tool, type ToolCallContext } from "./contract/define-tool.ts";
export type { InputField } from "./contract/input-fields.ts";
export { findTool, listTools, type ToolListEntry } from "./contract/tool-list.ts";
export { connectLine } from "./databases/connect-line.ts";
export { compareBuilds, verdictOf } from "./deployments/compare-builds.ts";
export { deployedText, reasonOf, sharesText, whatWasDeployed } from "./deployments/deployment-text.ts";
export { diagnoseTool } from "./diagnosis/diagnose-tool.ts";
export { runDiagnosis } from "./diagnosis/run-diagnosis.ts";
export { type Breach, declaredBreaches } from "./incidents/find-breaches.ts";
export { briefOf } from "./incidents/incident-view.ts";
export { symptomNow } from "./incidents/judge-objective.ts";
export { type Breaches, readBreaches } from "./incidents/read-breaches.ts";
export { maxRangesFileBytes, type ProviderRanges, parseProviderRanges } from "./network/ranges/provider-ranges.ts";
export { findPublishedLink, type PublishedRanges, parsePublishedRanges, publishedRanges } from "./network/ranges/published-ranges.ts";
export type { RangeFormat } from "./network/ranges/range-formats.ts";
export { type FamilyRanges, type RangeKind, type RangeLabel, type RangeList, RangeListBuilder } from "./network/ranges/range-list.ts";
export type { AgentHealth, AgentInfo, AgentList } from "./schemas/agent.ts";
export type {
  ApprovalDecided,
  ApprovalDecision,
  ApprovalInfo,
  ApprovalList,
  ApprovalOutcome,
  AuditChain,
  AuditEntries,
  AuditEntryFact,
  AuditList,
  AuditRecordFact,
  AuditVerification,
  ExpectedLink,
} from "./schemas/audit.ts";
export type { CapturedRequest, CaptureEnd, CaptureEvent, CaptureRequest, CaptureResult } from "./schemas/capture.ts";
export type {
  CommandKind,
  CommandOutcome,
  CommandRequest,
  CommandResult,
  ResolvedTargets,
  TargetAgent,
} from "./schemas/command.ts";
export { type Answer, type Completeness, completenessOf } from "./schemas/completeness.ts";
export type { DatabaseList } from "./schemas/database.ts";
export type {
  BuildChange,
  BuildReport,
  Deployment,
  DeploymentList,
  DeploymentState,
  DeploymentsRequest,
  MarkDeploymentRequest,
  Verdict,
} from "./schemas/deployment.ts";
export type { DiagnosisResult, EvidenceResult } from "./schemas/diagnosis.ts";
export type { EventList } from "./schemas/event.ts";
export type { HostQueryResult, HostReport } from "./schemas/host.ts";
export type {
  IncidentBrief,
  IncidentDetail,
  IncidentSymptomView,
  ObjectiveList,
  OpenIncidents,
  Verification,
  WhatIf,
} from "./schemas/incident.ts";
export type { LogPattern, LogRecord, LogResult } from "./schemas/logs.ts";
export type { MetricResult } from "./schemas/metrics.ts";
export type { EndpointList, EndpointUse, Topology, TopologyEdge, TopologyNode } from "./schemas/network.ts";
export type { ProfileFunction, ProfileNode, ProfileResult } from "./schemas/profile.ts";
export type { RuntimeContextFacts, RuntimeContextList, RuntimeDistribution } from "./schemas/runtime.ts";
export type { Service, ServiceList } from "./schemas/service.ts";
export type { ColonyInfo, ColonyStatus, StoreInfo } from "./schemas/status.ts";
export type {
  ServiceSummary,
  SummaryBaseline,
  SummaryDetails,
  SummaryFinding,
  SummaryHealth,
  SummaryPeer,
  SummaryRequests,
  SummaryResult,
  SummaryRoute,
} from "./schemas/summary.ts";
export type { TokenCreated, TokenInfo } from "./schemas/token.ts";
export type { TraceSpan, TracesResult, WholeTrace } from "./schemas/trace.ts";
export type { RedFinding, RedResult, RedRow, TopResult, TopRow } from "./schemas/traffic.ts";
export { serviceAliases } from "./services/service-aliases.ts";
export { readHealth } from "./summary/read-health.ts";
export { startCapture } from "./traffic/capture-requests.ts";
