/**
 * Explains why a service is slow without a slow callee: what it uses, and what it waits for. Returns the first explanation that the facts
 * support.
 */

import { type DiagnosisFacts, type HostFact, loadMeasures, type MeasureFact, requestMeasures, type Spread } from "../model/diagnosis.ts";
import { figure, times } from "./figure-text.ts";
import type { Suspicion } from "./suspicion.ts";

/**
 * By half, and by this many cores, is more work per request. Less, down to `minCores`, where it is this part of what requests take longer: a
 * service with few requests uses little.
 */
const moreCpu = { cores: 0.08, part: 0.5, minCores: 0.02, delayPart: 0.1 };
const moreTraffic = 1.4;
const slowDisk = { ms: 15, ratio: 4 };
/** Share of time in which some task waits for I/O. */
const waitingForDisk = { share: 0.12, ratio: 3 };
/** Shares of segments. `besideOutside`: all connections of a host count in it, so that less is enough where calls spend their time on the way. */
const lostSegments = { share: 0.004, ratio: 3, besideOutside: { share: 0.002, ratio: 1.5 } };
/** Calls spend more time on the way to their callee, and this part of what requests take longer. */
const onTheWay = { us: 5_000, ratio: 3, delayPart: 0.4 };
const queued = { us: 4_000, ratio: 4 };
/** Calls to a healthy dependency fell to this share. */
const fewerCalls = 0.75;
/** Requests that wait for a connection take so much longer, also as a part of what they took. */
const waitsForPool = { us: 20_000, part: 0.5 };
/** Routes that slowed down by at least this share of the slowest route's delay: the whole program is slow, not one route. */
const sharedDelay = 0.35;

const statementVerb = /^(?:SELECT|INSERT|UPDATE|DELETE|WITH|MERGE|COPY|BEGIN|COMMIT|CREATE|ALTER|CALL)\b/i;
const lockingStatement = /^(?:INSERT|UPDATE|DELETE|MERGE|ALTER|COMMIT)\b|\bFOR (?:UPDATE|SHARE)\b/i;

export interface Explanation extends Pick<Suspicion, "kind" | "pointer" | "statement" | "figures"> {}

type Explain = (symptom: Suspicion, known: ServiceFacts) => Explanation | null;

interface ServiceFacts {
  service: string;
  facts: DiagnosisFacts;
  measures: MeasureFact[];
  hosts: HostFact[];
  cpu: MeasureFact | undefined;
  usesMoreCpu: boolean;
  /** Calls of it, or to it, that spend far more time on the way than usual; of several the slowest. */
  outside: MeasureFact | undefined;
  /** Both ends of some of its calls are seen. */
  hasOutside: boolean;
}

/** Null if only the symptom is known. */
export function explainCause(symptom: Suspicion, facts: DiagnosisFacts): Explanation | null {
  if (symptom.kind !== "slow" && symptom.kind !== "slow-code" && symptom.kind !== "failing" && symptom.kind !== "resource") return null;
  const { service } = symptom;
  const measures = facts.measures.filter((one) => one.service === service);
  const cpu = measures.find(({ name }) => name === loadMeasures.cpu);
  const rate = measures.find(({ name }) => name === requestMeasures.rate);
  const isBusier = rate !== undefined && rate.before.median > 0 && rate.after.median > moreTraffic * rate.before.median;
  const usesMoreCpu = cpu !== undefined && !isBusier && isMore(cpu, addedDelay(measures, rate));
  const hosts = facts.hosts.filter(({ services }) => services.includes(service));
  const links = facts.measures.filter(
    ({ name, service: caller, subject }) => name === requestMeasures.outside && (caller === service || subject === service),
  );
  const outside = slowestLink(links, symptom);
  const known = { service, facts, measures, hosts, cpu, usesMoreCpu, outside, hasOutside: links.length > 0 };
  const explanations: readonly Explain[] = [lostPackets, slowDevice, statementOf, blockedOrHot, exhaustedPool, slowLink, waiting];
  for (const explain of explanations) {
    const found = explain(symptom, known);
    if (found !== null) return found;
  }
  return null;
}

function slowestLink(links: readonly MeasureFact[], { figures }: Suspicion): MeasureFact | undefined {
  const least = figures.unit === "us" ? onTheWay.delayPart * (figures.after - figures.before) : 0;
  return links
    .filter(({ before, after }) => grew(before, after, onTheWay.us, onTheWay.ratio) && after.median - before.median >= least)
    .sort((a, b) => b.after.median - a.after.median)[0];
}

/** `delay`: seconds per second that requests take longer. */
function isMore({ before, after }: MeasureFact, delay: number): boolean {
  const added = after.median - before.median;
  if (after.count === 0 || added < moreCpu.part * before.median) return false;
  return added >= moreCpu.cores || (added >= moreCpu.minCores && added >= moreCpu.delayPart * delay);
}

/** All routes count alike: how many requests each has is not known here. */
function addedDelay(measures: readonly MeasureFact[], rate: MeasureFact | undefined): number {
  const delays = measures
    .filter(({ name, before, after }) => name === requestMeasures.duration && before.count > 0 && after.count > 0)
    .map(({ before, after }) => Math.max(0, after.median - before.median) / 1_000_000);
  return delays.length === 0 ? 0 : ((rate?.after.median ?? 0) * delays.reduce((sum, one) => sum + one, 0)) / delays.length;
}

const grew = (before: Spread, after: Spread, least: number, ratio: number): boolean =>
  after.count > 0 && after.median >= least && after.median >= ratio * before.q75;

const lostPackets: Explain = ({ kind }, { hosts, outside, hasOutside }) => {
  if (kind !== "slow" && kind !== "slow-code" && kind !== "failing") return null;
  // Where both ends of calls are seen, losses of others than them do not matter.
  if (hasOutside && outside === undefined) return null;
  const limit = outside === undefined ? lostSegments : lostSegments.besideOutside;
  const host = hosts.find(({ retransmits: { before, after } }) => grew(before, after, limit.share, limit.ratio));
  if (host === undefined) return null;
  const { before, after } = host.retransmits;
  const where = outside === undefined ? "" : ` between ${outside.service} and ${outside.subject}`;
  return {
    kind: "packet-loss",
    pointer: outside === undefined ? "TCP retransmits" : `TCP retransmits${where}`,
    statement: `packets${where} are lost: ${figure(after.median, "ratio")} of the TCP segments of the host were retransmitted, was ${figure(before.median, "ratio")}${outside === undefined ? "" : `; ${outsideText(outside)}`}`,
    figures: { name: "TCP retransmits", unit: "ratio", before: before.median, after: after.median },
  };
};

const slowLink: Explain = ({ kind }, { outside }) => {
  // What fails has other reasons than calls that take longer.
  if (outside === undefined || (kind !== "slow" && kind !== "slow-code")) return null;
  const { service, subject, before, after } = outside;
  return {
    kind: "slow-link",
    pointer: `${service} → ${subject}`,
    statement: `${outsideText(outside)}: the network or a queue between them`,
    figures: { name: `${requestMeasures.outside} ${subject}`, unit: "us", before: before.median, after: after.median },
  };
};

const outsideText = ({ service, subject, before, after }: MeasureFact): string =>
  `calls ${service} → ${subject} spend ${figure(after.median, "us")} outside of ${subject}, was ${figure(before.median, "us")}`;

const slowDevice: Explain = ({ kind }, { hosts, usesMoreCpu }) => {
  if (usesMoreCpu || kind === "failing" || kind === "resource") return null;
  const disks = hosts.flatMap((host) => host.disks);
  const slow = disks.filter(({ latencyMs: { before, after } }) => grew(before, after, slowDisk.ms, slowDisk.ratio));
  const worst = slow.sort((a, b) => b.latencyMs.after.median - a.latencyMs.after.median)[0];
  if (worst === undefined) return waitForDisks(hosts);
  const { before, after } = worst.latencyMs;
  return {
    kind: "disk-wait",
    pointer: `disk ${worst.device}`,
    statement: `a write to disk ${worst.device} takes ${figure(after.median, "ms")}, was ${figure(before.median, "ms")}${times(before.median, after.median)}, and it uses no more CPU: it waits for the disk`,
    figures: { name: `write latency of ${worst.device}`, unit: "ms", before: before.median, after: after.median },
  };
};

/** Writes throttled by a limit, and syncs that wait for a journal, never show as device latency. */
function waitForDisks(hosts: readonly HostFact[]): Explanation | null {
  const host = hosts.find(({ ioWait: { before, after } }) => grew(before, after, waitingForDisk.share, waitingForDisk.ratio));
  if (host === undefined) return null;
  const { before, after } = host.ioWait;
  return {
    kind: "disk-wait",
    pointer: "disk I/O",
    statement: `tasks of its host wait for disks in ${figure(after.median, "ratio")} of the time, was ${figure(before.median, "ratio")}, and it uses no more CPU: it waits for the disk`,
    figures: { name: "I/O pressure", unit: "ratio", before: before.median, after: after.median },
  };
}

const statementOf: Explain = (symptom, { usesMoreCpu, cpu }) => {
  const { pointer, kind, figures } = symptom;
  if (!statementVerb.test(pointer) || (kind !== "slow" && kind !== "failing")) return null;
  const cores = cpu === undefined ? "" : ` (${figure(cpu.after.median, "")} cores, was ${figure(cpu.before.median, "")})`;
  if (!usesMoreCpu && lockingStatement.test(pointer))
    return {
      kind: "lock-wait",
      pointer,
      statement: `${pointer} waits without using CPU${cores}: another transaction may hold its rows`,
      figures,
    };
  const how = usesMoreCpu ? `the database uses more CPU${cores}: it may read more rows than it needs` : "the database needs longer for it";
  return kind === "failing" ? null : { kind: "slow-statement", pointer, statement: `${pointer} is slow by itself, ${how}`, figures };
};

const blockedOrHot: Explain = (symptom, { measures, usesMoreCpu, cpu }) => {
  if (cpu === undefined || !usesMoreCpu || symptom.kind === "failing") return null;
  const figures = { name: loadMeasures.cpu, unit: "cores", before: cpu.before.median, after: cpu.after.median };
  const cores = `${figure(cpu.after.median, "")} cores, was ${figure(cpu.before.median, "")}`;
  const delays = measures
    .filter(({ name, before, after }) => name === requestMeasures.duration && before.count > 0 && after.count > 0)
    .map(({ subject, before, after }) => ({ subject, delay: after.median - before.median }))
    .sort((a, b) => b.delay - a.delay);
  const [worst, second] = delays;
  const wait = measures.find(({ name }) => name === requestMeasures.queued);
  const isQueued = wait !== undefined && grew(wait.before, wait.after, queued.us, queued.ratio);
  const isShared = worst !== undefined && second !== undefined && second.delay > sharedDelay * worst.delay;
  if (isShared)
    return {
      kind: "blocked-thread",
      pointer: "event loop or main thread",
      statement: `all of its routes wait for a busy thread${isQueued && wait ? `: requests wait unread for ${figure(wait.after.median, "us")}, was ${figure(wait.before.median, "us")}` : ""}; it uses ${cores}`,
      figures,
    };
  const pointer = symptom.kind === "resource" ? (worst?.subject ?? symptom.pointer) : symptom.pointer;
  return {
    kind: "hot-code",
    pointer,
    statement: `${pointer} burns CPU in its own code: the service uses ${cores}, without more requests`,
    figures,
  };
};

const exhaustedPool: Explain = (symptom, { facts, measures, service, usesMoreCpu }) => {
  // Who fails at once makes fewer calls, too; who waits for a connection takes longer.
  if (usesMoreCpu || symptom.kind === "resource" || !measures.some(isWaiting)) return null;
  const fewer = measures.filter(
    ({ name, before, after }) =>
      name === requestMeasures.calls && before.median > 0 && (after.count === 0 ? 0 : after.median) < fewerCalls * before.median,
  );
  const rate = measures.find(({ name }) => name === requestMeasures.rate);
  const isQuieter = rate !== undefined && rate.after.median < fewerCalls * rate.before.median;
  // A request that waits for a connection makes none of its later calls either: the dependency that lost the most.
  const lost = ({ before, after }: MeasureFact): number => before.median - (after.count === 0 ? 0 : after.median);
  const [pool] = fewer.filter(({ subject }) => !isSuffering(subject, facts)).sort((a, b) => lost(b) - lost(a));
  if (pool === undefined || isQuieter || symptom.kind === "slow-code") return null;
  const now = pool.after.count === 0 ? 0 : pool.after.median;
  return {
    kind: "pool-exhausted",
    pointer: `connections to ${pool.subject}`,
    statement: `${service} waits for a free connection to ${pool.subject}: it sends ${figure(now, "/s")} calls instead of ${figure(pool.before.median, "/s")}, and ${pool.subject} is as fast as usual`,
    figures: { name: `${requestMeasures.calls} to ${pool.subject}`, unit: "/s", before: pool.before.median, after: now },
  };
};

function isWaiting({ name, before, after }: MeasureFact): boolean {
  const added = after.median - before.median;
  return (
    name === requestMeasures.duration &&
    before.count > 0 &&
    after.count > 0 &&
    added >= Math.max(waitsForPool.us, waitsForPool.part * before.median)
  );
}

function isSuffering(service: string, { measures }: DiagnosisFacts): boolean {
  return measures.some(
    ({ service: other, name, before, after }) =>
      other === service && name === requestMeasures.duration && after.count > 0 && after.median > 1.5 * before.median + 2_000,
  );
}

const waiting: Explain = (symptom, { cpu, usesMoreCpu }) => {
  if (cpu === undefined || usesMoreCpu || symptom.kind !== "slow") return null;
  const cores = cpu.after.count === 0 ? "" : ` (${figure(cpu.after.median, "")} cores)`;
  return {
    kind: "waiting",
    pointer: symptom.pointer,
    statement: `${symptom.pointer} waits: the service uses no more CPU than usual${cores}, and nothing that it calls is slower`,
    figures: symptom.figures,
  };
};
