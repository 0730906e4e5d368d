/** What a diagnosis compares: the usual state of services, and the time in question. */

/** Of the values of a series in one of the two times. */
export interface Spread {
  count: number;
  q05: number;
  q25: number;
  median: number;
  q75: number;
  q95: number;
}

/** `calls` is how long a service's own calls take: a symptom of what it calls. `traffic` is context. */
export type MeasureKind = "latency" | "errors" | "resource" | "traffic" | "calls" | "host";

/** One series of a service: a metric, or requests of one route. */
export interface MeasureFact {
  service: string;
  /** Of the metric, or `duration of requests` and the like. The same name at two services means the same quantity. */
  name: string;
  /** What the series is about: a route, a SQL template, a cgroup; empty for the whole service. */
  subject: string;
  unit: string;
  kind: MeasureKind;
  before: Spread;
  after: Spread;
}

/** Durations in microseconds. */
export interface TimesFact {
  count: number;
  q25: number;
  median: number;
  q75: number;
  q90: number;
}

/** Spans of one operation: what they take without their children, and as a whole. */
export interface OperationFact {
  service: string;
  operation: string;
  /** Its spans call other services: what they take beyond that is a matter of the link. */
  isCall: boolean;
  before: { self: TimesFact; wholeUs: number };
  after: { self: TimesFact; wholeUs: number };
}

/** The time of calls between two services that the callee does not account for: network, queues, accepting. */
export interface LinkFact {
  caller: string;
  callee: string;
  before: TimesFact;
  after: TimesFact;
}

/**
 * How often something happens in an operation, summed over whole traces: traces are independent of each other, spans of one trace are not.
 * `records` r and `spans` n of each trace: sums of r, n, r², r·n, n².
 */
export interface StepCounts {
  traces: number;
  spans: number;
  spansSquared: number;
  records: number;
  recordsSquared: number;
  recordsTimesSpans: number;
}

/** Something that spans of an operation do: a child span, or a log record of a pattern. */
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

/** What a host had left. Ratios of time or of segments, 0..1. */
export interface HostFact {
  agentId: string;
  hostname: string;
  cores: number;
  busy: SpreadPair;
  steal: SpreadPair;
  /** Pressure: shares of time in which some task waited for CPU, disks, memory. */
  cpuWait: SpreadPair;
  ioWait: SpreadPair;
  memoryWait: SpreadPair;
  retransmits: SpreadPair;
  /** Services with processes there. */
  services: string[];
  disks: DiskFact[];
  /** Programs whose use of CPU grew the most. */
  programs: ProcessShareFact[];
}

export interface DiskFact {
  device: string;
  /** Of writes. */
  latencyMs: SpreadPair;
  busy: SpreadPair;
}

/** All processes of one name. */
export interface ProcessShareFact {
  name: string;
  /** Empty: of none. */
  service: string;
  processes: number;
  coresBefore: number;
  coresAfter: number;
}

/** Limits of a service's control groups, and how near it came to them. Bytes. */
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
  /** What is usual. */
  before: readonly TimeRange[];
  after: TimeRange;
}

export interface DiagnosisFacts extends DiagnosisTimesRequest {
  measures: MeasureFact[];
  operations: OperationFact[];
  links: LinkFact[];
  steps: StepFact[];
  calls: { caller: string; callee: string }[];
  /** Peers without a process, spans or metrics of their own: seen by their callers only. */
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
  /** Of steps with requests: steps without any are not counted. */
  rate: "requests served per second",
  /** Before the program read them: how long its thread, or its queue, kept them waiting. */
  queued: "requests waiting to be read",
  /** Of one caller to one callee. */
  calls: "calls per second",
  /** Of calls of one caller to one callee, where both ends are seen: what they take beyond what the callee takes. */
  outside: "time of calls outside of the callee",
} as const;

/** Steps in which requests are counted: of a time that has lasted for minutes; of a shorter one, as fine as they are stored. */
export function requestStepSeconds({ fromMs, untilMs }: TimeRange): number {
  return untilMs - fromMs < 4 * 60_000 ? 10 : 30;
}

/** Names of quantities of processes. */
export const loadMeasures = { cpu: "CPU used", memory: "memory used", throttling: "CPU throttling" } as const;

/** When the trouble of the time before `untilMs` began. */
export interface OnsetFact {
  /** Null: requests look as usual, or too few were seen to tell. */
  onsetMs: number | null;
  /** When it ended; null: it lasts, or there is none. */
  endMs: number | null;
  /** Earlier trouble, in order: those times are not what is usual. */
  earlier: TimeRange[];
  /** Since when anything was seen at all; null: nothing. */
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
  /** Commands that show more of it. */
  commands: string[];
}
