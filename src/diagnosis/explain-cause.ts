/** Why a service that is slow by itself is slow: what it uses, what it waits for. The first explanation that the facts support. */

import { type DiagnosisFacts, type HostFact, loadMeasures, type MeasureFact, requestMeasures, type Spread } from "../model/diagnosis.ts";
import { figure, times } from "./figure-text.ts";
import type { Suspicion } from "./suspicion.ts";

/** Cores: more than this, and by half, is more work per request. */
const moreCpu = { cores: 0.08, part: 0.5 };
const moreTraffic = 1.4;
const slowDisk = { ms: 15, ratio: 4 };
/** Shares of time in which some task waits for I/O. */
const waitingForDisk = { share: 0.12, ratio: 3 };
/** Shares of segments. */
const lostSegments = { share: 0.004, ratio: 3 };
const queued = { us: 4_000, ratio: 4 };
/** Calls to a dependency that is well fell to this part. */
const fewerCalls = 0.75;
/** Routes that got slower by this part of the slowest one's delay: the whole program is slow, not one route. */
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
}

/** Null when nothing is known besides the symptom. */
export function explainCause(symptom: Suspicion, facts: DiagnosisFacts): Explanation | null {
  if (symptom.kind !== "slow" && symptom.kind !== "slow-code" && symptom.kind !== "failing" && symptom.kind !== "resource") return null;
  const { service } = symptom;
  const measures = facts.measures.filter((one) => one.service === service);
  const cpu = measures.find(({ name }) => name === loadMeasures.cpu);
  const rate = measures.find(({ name }) => name === requestMeasures.rate);
  const isBusier = rate !== undefined && rate.before.median > 0 && rate.after.median > moreTraffic * rate.before.median;
  const usesMoreCpu = cpu !== undefined && !isBusier && isMore(cpu);
  const known = { service, facts, measures, hosts: facts.hosts.filter(({ services }) => services.includes(service)), cpu, usesMoreCpu };
  const explanations: readonly Explain[] = [lostPackets, slowDevice, statementOf, blockedOrHot, exhaustedPool, waiting];
  for (const explain of explanations) {
    const found = explain(symptom, known);
    if (found !== null) return found;
  }
  return null;
}

function isMore({ before, after }: MeasureFact): boolean {
  return after.count > 0 && after.median >= before.median + Math.max(moreCpu.cores, moreCpu.part * before.median);
}

const grew = (before: Spread, after: Spread, least: number, ratio: number): boolean =>
  after.count > 0 && after.median >= least && after.median >= ratio * before.q75;

const lostPackets: Explain = ({ kind }, { hosts }) => {
  if (kind !== "slow" && kind !== "slow-code" && kind !== "failing") return null;
  const host = hosts.find(({ retransmits: { before, after } }) => grew(before, after, lostSegments.share, lostSegments.ratio));
  if (host === undefined) return null;
  const { before, after } = host.retransmits;
  return {
    kind: "packet-loss",
    pointer: "TCP retransmits",
    statement: `packets are lost: ${figure(after.median, "ratio")} of TCP segments were retransmitted, was ${figure(before.median, "ratio")}`,
    figures: { name: "TCP retransmits", unit: "ratio", before: before.median, after: after.median },
  };
};

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

/** Writes that a limit holds back, and syncs that wait for a journal, never show as latency of the device. */
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
  if (usesMoreCpu || symptom.kind === "resource") return null;
  const fewer = measures.filter(
    ({ name, before, after }) =>
      name === requestMeasures.calls && before.median > 0 && (after.count === 0 ? 0 : after.median) < fewerCalls * before.median,
  );
  const rate = measures.find(({ name }) => name === requestMeasures.rate);
  const isQuieter = rate !== undefined && rate.after.median < fewerCalls * rate.before.median;
  const pool = fewer.find(({ subject }) => !isSuffering(subject, facts));
  if (pool === undefined || isQuieter || symptom.kind === "slow-code") return null;
  const now = pool.after.count === 0 ? 0 : pool.after.median;
  return {
    kind: "pool-exhausted",
    pointer: `connections to ${pool.subject}`,
    statement: `${service} waits for a free connection to ${pool.subject}: it sends ${figure(now, "/s")} calls instead of ${figure(pool.before.median, "/s")}, and ${pool.subject} is as fast as usual`,
    figures: { name: `${requestMeasures.calls} to ${pool.subject}`, unit: "/s", before: pool.before.median, after: now },
  };
};

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
