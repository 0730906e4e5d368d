/** Facts that a diagnosis compares: the baseline of services, and the time in question. */

/** Distribution of a series' values in one of the two periods. */
export interface Spread {
  count: number;
  q05: number;
  q25: number;
  median: number;
  q75: number;
  q95: number;
}

/** `calls` is the duration of a service's outgoing calls: a symptom of its callee. `traffic` is context. */
export type MeasureKind = "latency" | "errors" | "resource" | "traffic" | "calls" | "host";

/** One series of a service: a metric, or requests of one route. */
export interface MeasureFact {
  service: string;
  /** Metric name, or `duration of requests` and the like. Equal names at two services mean the same quantity. */
  name: string;
  /** What the series measures: a route, a SQL template, a cgroup. Empty for the whole service. */
  subject: string;
  unit: string;
  kind: MeasureKind;
  before: Spread;
  after: Spread;
}

/** Distribution of durations in microseconds. */
export interface TimesFact {
  count: number;
  q25: number;
  median: number;
  q75: number;
  q90: number;
}

/** Spans of one operation: their self time, and their whole duration. */
export interface OperationFact {
  service: string;
  operation: string;
  /** Its spans call other services, so its self time includes the link. */
  isCall: boolean;
  before: { self: TimesFact; wholeUs: number };
  after: { self: TimesFact; wholeUs: number };
}

/** Time of calls between two services that the callee's span does not cover: network, queues, accepting. */
export interface LinkFact {
  caller: string;
  callee: string;
  before: TimesFact;
  after: TimesFact;
}

/**
 * How often something happens in an operation, summed over whole traces: traces are independent of each other, spans of one trace are not.
 * With `records` r and `spans` n of each trace: sums of r, n, r², r·n, n².
 */
export interface StepCounts {
  traces: number;
  spans: number;
  spansSquared: number;
  records: number;
  recordsSquared: number;
  recordsTimesSpans: number;
}

/** What spans of an operation do: a child span, or a log record of a pattern. */
export interface StepFact {
  service: string;
  operation: string;
  kind: "span" | "log";
  /** The child's service and operation, or the service and the log template. */
  childService: string;
  child: string;
  severity: string;
  before: StepCounts;
  after: StepCounts;
}

export interface SpreadPair {
  before: Spread;
  after: Spread;
}

/** Spare capacity of a host. Ratios of time or of segments, 0..1. */
export interface HostFact {
  agentId: string;
  hostname: string;
  cores: number;
  busy: SpreadPair;
  steal: SpreadPair;
  /** Pressure (PSI): share of time in which some task waited for CPU, disks or memory. */
  cpuWait: SpreadPair;
  ioWait: SpreadPair;
  memoryWait: SpreadPair;
  retransmits: SpreadPair;
  /** Services with processes on the host. */
  services: string[];
  disks: DiskFact[];
  /** Programs whose CPU use grew the most. */
  programs: ProcessShareFact[];
}

export interface DiskFact {
  device: string;
  /** Write latency. */
  latencyMs: SpreadPair;
  busy: SpreadPair;
}

/** All processes of one name. */
export interface ProcessShareFact {
  name: string;
  /** Empty if they belong to no service. */
  service: string;
  processes: number;
  coresBefore: number;
  coresAfter: number;
}

/** Limits of a service's control groups and their usage. Bytes. */
export interface LimitFact {
  service: string;
  cpuCores: number | null;
  throttled: SpreadPair;
  oomKills: number;
  memoryUsed: number;
  memoryUsedBefore: number;
  memoryLimit: number | null;
}

export interface ChangeFact {
  timeMs: number;
  service: string;
  kind: string;
  message: string;
}

export interface TimeRange {
  fromMs: number;
  /** Exclusive. */
  untilMs: number;
}

export interface DiagnosisTimesRequest {
  /** The baseline. */
  before: readonly TimeRange[];
  after: TimeRange;
}

export interface DiagnosisFacts extends DiagnosisTimesRequest {
  measures: MeasureFact[];
  operations: OperationFact[];
  links: LinkFact[];
  steps: StepFact[];
  calls: { caller: string; callee: string }[];
  /** Peers without local processes, spans or metrics: only their callers see them. */
  externals: string[];
  changes: ChangeFact[];
  hosts: HostFact[];
  limits: LimitFact[];
}

/** Coral's own processes, by id and by the name that callers without an id for them see: their traffic and CPU are no part of the application. */
const ownServices = ["program:coral", "coral"];
/** The list for SQL. */
export const ownServicesSql = `(${ownServices.map((one) => `'${one}'`).join(", ")})`;

/** Names of quantities that Coral measures itself. */
export const requestMeasures = {
  duration: "duration of requests",
  failed: "failed requests",
  /** Covers only steps with requests; empty steps are not counted. */
  rate: "requests served per second",
  /** Time before the program read the request: it waited in a queue or for a thread. */
  queued: "requests waiting to be read",
  /** From one caller to one callee. */
  calls: "calls per second",
  /** Of calls of one caller to one callee, where both ends are seen: what they take beyond what the callee takes. */
  outside: "time of calls outside of the callee",
} as const;

/** Step for counting requests: ten seconds for short periods, as stored; longer ones for periods of minutes. */
export function requestStepSeconds({ fromMs, untilMs }: TimeRange): number {
  return untilMs - fromMs < 4 * 60_000 ? 10 : 30;
}

/** Names of process quantities. */
export const loadMeasures = { cpu: "CPU used", memory: "memory used", throttling: "CPU throttling" } as const;

/** The onset of an incident in the time before `untilMs`. */
export interface OnsetFact {
  /** Null: requests look as usual, or there are too few. */
  onsetMs: number | null;
  /** When it ended; null: it lasts, or there is none. */
  endMs: number | null;
  /** Earlier incidents in order, to be excluded from the baseline. */
  earlier: TimeRange[];
  /** Time of the oldest observation; null: none. */
  seenSinceMs: number | null;
}

/** One piece of evidence, as it was when a diagnosis used it. */
export interface EvidenceFact {
  id: string;
  service: string;
  kind: string;
  pointer: string;
  statement: string;
  name: string;
  unit: string;
  usual: number;
  now: number;
  before: TimeRange[];
  after: TimeRange;
  /** Commands that show more about it. */
  commands: string[];
}
