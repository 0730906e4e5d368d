/**
 * What the tools need from a colony. The colony returns facts only; shaping, bounding, warnings, findings and completeness
 * belong to the tools, so that every transport shares them and their tests.
 */

import type { ErrorCode } from "../../base/errors.ts";
import type { AuditRequest } from "../../model/audit.ts";
import type { ConnectionsFacts, ConnectionsRequest } from "../../model/connections.ts";
import type { InspectedDatabase } from "../../model/database-facts.ts";
import type { DatabaseTraffic } from "../../model/database-traffic.ts";
import type { DiagnosisFacts, DiagnosisTimesRequest, EvidenceFact, OnsetFact } from "../../model/diagnosis.ts";
import type {
  EdgePageRequest,
  EdgeRedFacts,
  EdgeRedKey,
  EdgesRequest,
  NetworkFacts,
  SpanEdgeFacts,
  SpanEdgesRequest,
} from "../../model/edges.ts";
import type { ColonyEvent, EventsRequest, KeptFact, UnobservedFact } from "../../model/events.ts";
import type { HostFacts, HostNow, HostRequest } from "../../model/host.ts";
import type { Incident, IncidentsRequest, Objective, RequestTotals, RequestTotalsRequest } from "../../model/incident.ts";
import type { LogPatternsFacts, LogsFacts, LogsRequest } from "../../model/logs.ts";
import type {
  MetricFacts,
  MetricLossFact,
  MetricNamesFacts,
  MetricNamesRequest,
  MetricRequest,
  PromqlFacts,
  PromqlRequest,
} from "../../model/metrics.ts";
import type { HotFunctions, HotFunctionsRequest, ProfileFacts, ProfileRequest } from "../../model/profiles.ts";
import type { RedFacts, RedRequest, ServiceCpuFact, SpanRedFacts, SpanRedRequest, TrafficLossFact } from "../../model/red.ts";
import type { ServiceAtAgent, ServicesRequest } from "../../model/services.ts";
import type { SqlRequest, SqlResult } from "../../model/sql.ts";
import type {
  ServiceDetailsFacts,
  ServiceDetailsRequest,
  SummaryFacts,
  SummaryRequest,
  SummaryRouteHealthFact,
} from "../../model/summary.ts";
import type { SpanProcessFact, TraceFacts, TraceRequest, TracesFacts, TracesRequest } from "../../model/traces.ts";
import type { AgentInfo } from "../schemas/agent.ts";
import type {
  ApprovalDecision,
  ApprovalInfo,
  ApprovalOutcome,
  AuditEntryFact,
  AuditRecordFact,
  AuditVerification,
  ExpectedLink,
} from "../schemas/audit.ts";
import type { CaptureEvent, CaptureRequest } from "../schemas/capture.ts";
import type { CommandRefusal, CommandRequest, CommandResult } from "../schemas/command.ts";
import type { Deployment, DeploymentMarked, DeploymentsRequest, MarkDeploymentRequest } from "../schemas/deployment.ts";
import type { LegacyPhase, RuntimeContextFacts } from "../schemas/runtime.ts";
import type { ColonyInfo, StoreInfo } from "../schemas/status.ts";
import type { AgentRevoked, TokenCreated, TokenInfo, TokenKind, TokenRevoked } from "../schemas/token.ts";
import type { Permission, ToolCallContext } from "./define-tool.ts";

/** Rows known to be missing: pruned before the pull, dropped at the agent, or lost with a store. */
export interface LossFact {
  agentId: string;
  signal: string;
  /** Null when the number is unknown. */
  rows: number | null;
  reason: string;
  /** When the colony detected the loss, ISO 8601. */
  at: string;
}

/** Hosts that claim the same agent id. */
export interface DuplicateAgentFact {
  agentId: string;
  hostnames: string[];
}

export interface ColonyFacts {
  colony: ColonyInfo;
  store: StoreInfo;
  duplicates: DuplicateAgentFact[];
  /** Why external addresses do not resolve to names, ready to print. */
  nameProblems: string[];
  /** Absent: no registration policy. */
  registration?: RegistrationFacts;
}

/** The colony's policy for agents without a full runtime context. */
export interface RegistrationFacts {
  warnPassiveSidecars: boolean;
  /** Which date of the policy applies now. */
  legacyPhase: LegacyPhase;
  /** `2024-09-01`; null: never rejected. */
  legacyRejectAfter: string | null;
  upgradeSteps: string[];
}

export interface RuntimeContextRequest {
  agentId: string;
  /** Make the agent detect its runtime again. */
  refresh: boolean;
  /** How many of the newest changes to return. */
  history: number;
}

export interface LossesRequest {
  agentIds?: readonly string[];
  signals?: readonly string[];
  /** Absent: every gap in the ledger. */
  sinceMs?: number;
}

/** What the colony lacks for a time range. */
export interface CoverageFacts {
  /** Newest first. */
  unobserved: UnobservedFact[];
  /** Signals that lost rows to retention. */
  kept: KeptFact[];
  nowMs: number;
}

export interface CreateTokenRequest {
  kind: TokenKind;
  name: string;
  /** For user tokens; null for join tokens. */
  permission: Permission | null;
  validForMs: number;
  /** Null: unlimited until it expires. */
  uses: number | null;
}

export type SetObjectiveRequest = Omit<Objective, "setBy" | "setMs">;
export interface InspectDatabasesRequest {
  service: string;
  /** Statement to explain; null: none. */
  statement: string | null;
  targets: readonly { agentId: string; ports: readonly number[] }[];
}

/** Why an agent did not inspect a database; `not-found`: it has no credentials. */
export interface DatabaseProblem {
  agentId: string;
  code: ErrorCode;
  message: string;
}

export interface ColonyBackend {
  status(context: ToolCallContext): Promise<ColonyFacts>;
  /** The whole registry, revoked agents included. */
  agents(context: ToolCallContext): Promise<AgentInfo[]>;
  /** Where an agent runs, from the agent when it is connected, else as last reported. Throws `not-found` for an unknown agent. */
  runtimeContext(request: RuntimeContextRequest, context: ToolCallContext): Promise<RuntimeContextFacts>;
  /** The newest host values of every agent that has any. */
  hostsNow(context: ToolCallContext): Promise<HostNow[]>;
  host(request: HostRequest, context: ToolCallContext): Promise<HostFacts[]>;
  /** The registry: every service at every agent, stale ones included. */
  services(request: ServicesRequest, context: ToolCallContext): Promise<ServiceAtAgent[]>;
  /** Connections between services in a time range. */
  edges(request: EdgesRequest & { page?: EdgePageRequest }, context: ToolCallContext): Promise<NetworkFacts>;
  /** Rate, errors and durations of requests in a time range. */
  red(request: RedRequest, context: ToolCallContext): Promise<RedFacts>;
  /** Requests by edge, all or those named. Each edge once, from the end that saw more. */
  edgeRed(request: EdgesRequest & { among?: EdgeRedKey[] }, context: ToolCallContext): Promise<EdgeRedFacts>;
  connections(request: ConnectionsRequest, context: ToolCallContext): Promise<ConnectionsFacts>;
  /** Facts about the health of all services, or of one. */
  /** Facts about all services are cached for up to two seconds. */
  summary(request: SummaryRequest, context: ToolCallContext): Promise<SummaryFacts>;
  /** Requests that one service served and sent, by route, uncached. */
  routeHealth(request: { service: string }, context: ToolCallContext): Promise<SummaryRouteHealthFact[]>;
  /** Routes, peers, time series and load of one service, by hooks or by spans. */
  serviceDetails(request: ServiceDetailsRequest, context: ToolCallContext): Promise<ServiceDetailsFacts>;
  /** Newest first. */
  deployments(request: DeploymentsRequest, context: ToolCallContext): Promise<Deployment[]>;
  markDeployment(request: MarkDeploymentRequest, context: ToolCallContext): Promise<DeploymentMarked>;
  /** By the colony's clock. */
  nowMs(): number;
  /** Onset of the trouble that is present at `untilMs`. */
  diagnosisOnset(request: { untilMs: number }, context: ToolCallContext): Promise<OnsetFact>;
  /** Facts of all signals in both time ranges. */
  diagnosisFacts(request: DiagnosisTimesRequest, context: ToolCallContext): Promise<DiagnosisFacts>;
  /** Database statements and connections in both time ranges. */
  databaseTraffic(request: DiagnosisTimesRequest, context: ToolCallContext): Promise<DatabaseTraffic>;
  /** Inspection of databases by the agents that have credentials for them. */
  inspectDatabases(
    request: InspectDatabasesRequest,
    context: ToolCallContext,
  ): Promise<{ found: InspectedDatabase[]; problems: DatabaseProblem[] }>;
  /** Keeps the newest 2,000, for `evidence`. */
  keepEvidence(facts: readonly EvidenceFact[]): Promise<void>;
  evidence(id: string): Promise<EvidenceFact | undefined>;
  /** Open ones first, then the newest; and how many are open. */
  incidents(request: IncidentsRequest, context: ToolCallContext): Promise<{ incidents: Incident[]; open: number }>;
  incident(number: number, context: ToolCallContext): Promise<Incident | undefined>;
  objectives(context: ToolCallContext): Promise<Objective[]>;
  /** Replaces what was declared for the same service and route. */
  setObjective(request: SetObjectiveRequest, context: ToolCallContext): Promise<Objective>;
  /** Returns how many were removed. */
  removeObjective(request: { service: string; route: string }, context: ToolCallContext): Promise<number>;
  /** Served requests by route in each time range. */
  requestTotals(request: RequestTotalsRequest, context: ToolCallContext): Promise<RequestTotals[]>;
  /** Losses of the agents' kernel hooks. */
  trafficLosses(request: { agentIds?: readonly string[]; sinceMs: number }, context: ToolCallContext): Promise<TrafficLossFact[]>;
  /** Log records, newest first. */
  logs(request: LogsRequest, context: ToolCallContext): Promise<LogsFacts>;
  /** The same records grouped by pattern, most first; `page` is ignored. */
  logPatterns(request: LogsRequest, context: ToolCallContext): Promise<LogPatternsFacts>;
  /** Metrics that programs sent in a time range. */
  metricNames(request: MetricNamesRequest, context: ToolCallContext): Promise<MetricNamesFacts>;
  /** One metric over time. */
  metric(request: MetricRequest, context: ToolCallContext): Promise<MetricFacts>;
  /** Throws `invalid` with the position when the expression is not valid PromQL. */
  promql(request: PromqlRequest, context: ToolCallContext): Promise<PromqlFacts>;
  /** Metric points that were dropped. */
  metricLosses(request: { agentIds?: readonly string[]; sinceMs: number }, context: ToolCallContext): Promise<MetricLossFact[]>;
  /** Traces with a matching span. */
  traces(request: TracesRequest, context: ToolCallContext): Promise<TracesFacts>;
  /** All spans of one trace, up to a limit; none when it is unknown. */
  trace(request: TraceRequest, context: ToolCallContext): Promise<TraceFacts>;
  /** Calls between services, derived from parent spans. */
  spanEdges(request: SpanEdgesRequest, context: ToolCallContext): Promise<SpanEdgeFacts>;
  /** Rate, errors and durations of requests, from spans. */
  spanRed(request: SpanRedRequest, context: ToolCallContext): Promise<SpanRedFacts>;
  /** One process per service and agent that sent spans recently. */
  spanProcesses(context: ToolCallContext): Promise<SpanProcessFact[]>;
  /** Service names in spans. */
  spanServices(request: { sinceMs: number }, context: ToolCallContext): Promise<string[]>;
  /** Service names in log records. */
  logServices(request: { sinceMs: number }, context: ToolCallContext): Promise<string[]>;
  /** Load of services that have a process among the busiest of their host. */
  serviceCpu(context: ToolCallContext): Promise<ServiceCpuFact[]>;
  /**
   * Streams live requests until the limit, the time or the caller's signal ends it; so does closing the iterator. Throws `not-found` for a
   * service that is not running and `unsupported` when none of its agents can capture.
   */
  capture(request: CaptureRequest, context: ToolCallContext): AsyncIterable<CaptureEvent>;
  /** Runs a command at each agent to completion. A failure of one agent is an outcome, not an error. */
  execute(request: CommandRequest, context: ToolCallContext): Promise<CommandResult>;
  /** CPU samples of a service by stack. */
  profile(request: ProfileRequest, context: ToolCallContext): Promise<ProfileFacts>;
  /** Functions with the most CPU time, and those whose CPU time grew. */
  hotFunctions(request: HotFunctionsRequest, context: ToolCallContext): Promise<HotFunctions>;
  /** Audits a command that no agent can run. */
  refuseCommand(refusal: CommandRefusal, context: ToolCallContext): Promise<void>;
  sql(request: SqlRequest, context: ToolCallContext): Promise<SqlResult>;
  /** Events of the colony and its agents, newest first. */
  events(request: EventsRequest, context: ToolCallContext): Promise<ColonyEvent[]>;
  losses(request: LossesRequest, context: ToolCallContext): Promise<LossFact[]>;
  /** Unobserved time of agents, and rows that retention removed. */
  coverage(request: { sinceMs: number }, context: ToolCallContext): Promise<CoverageFacts>;
  createToken(request: CreateTokenRequest, context: ToolCallContext): Promise<TokenCreated>;
  tokens(context: ToolCallContext): Promise<TokenInfo[]>;
  /** Throws `not-found` for an unknown id; revoking twice is fine. */
  revokeToken(tokenId: string, context: ToolCallContext): Promise<TokenRevoked>;
  /** Rejects the agent's certificates from now on and closes its tunnel. */
  revokeAgent(agentId: string, context: ToolCallContext): Promise<AgentRevoked>;
  /** Newest first. */
  audit(request: AuditRequest, context: ToolCallContext): Promise<AuditRecordFact[]>;
  /** Entries of all commands with this id prefix. */
  auditEntries(request: { id: string; limit: number }, context: ToolCallContext): Promise<AuditEntryFact[]>;
  /** Absent: all agents and the colony. */
  verifyAudit(request: { agentIds?: readonly string[]; expected?: ExpectedLink[] }, context: ToolCallContext): Promise<AuditVerification>;
  /** Chunks of the asciicast v2 file that the agent recorded. */
  recording(request: { agentId: string; recording: string }, context: ToolCallContext): AsyncIterable<Uint8Array>;
  approvals(context: ToolCallContext): Promise<ApprovalInfo[]>;
  decideApproval(decision: ApprovalDecision, context: ToolCallContext): Promise<ApprovalOutcome[]>;
}
