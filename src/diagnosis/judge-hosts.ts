/**
 * A host without spare capacity slows down all of its services. The cause is what used the capacity, unless that is one of the services.
 */

import type { DiagnosisFacts, HostFact, ProcessShareFact } from "../model/diagnosis.ts";
import { figure } from "./figure-text.ts";
import type { Suspicion } from "./suspicion.ts";

/** Share of the cores in use, its growth, and share of time in which some task waited for a core. */
const full = { busy: 0.9, growth: 0.1, waiting: 0.4, waitingGrowth: 0.15 };
const minSteal = 0.1;
const minMemoryWait = 0.15;
/** Minimum share of the cores that one program must have taken. */
const takenPart = 0.25;
/** Minimum number of services that suffer at once: a single one has its own reasons. */
const minSuffering = 2;
const minSymptom = 0.5;
/** Ranks a host above its services, which only suffer from it. */
const aboveServices = 1.15;

/** `host vm`: the name of a host as a cause. */
export const hostName = ({ hostname, agentId }: HostFact): string => `host ${hostname === "" ? agentId : hostname}`;

export function judgeHosts({ hosts, measures }: DiagnosisFacts, symptoms: readonly Suspicion[]): Suspicion[] {
  return hosts.flatMap((host) => {
    const lacking = lackOf(host);
    if (lacking === null) return [];
    const here = new Set(host.services);
    const suffering = symptoms.filter(({ service, kind, rawScore }) => kind === "slow" && rawScore >= minSymptom && here.has(service));
    const services = new Set(suffering.map(({ service }) => service));
    const known = measures.some(({ service }) => here.has(service));
    if (!known || services.size < minSuffering) return [];
    const score = aboveServices * suffering.reduce((most, one) => Math.max(most, one.rawScore), 0);
    const sufferers = `${services.size} of its services are slower`;
    return [
      {
        service: hostName(host),
        kind: "host" as const,
        score,
        rawScore: score,
        explainedBy: "",
        ...lacking,
        statement: `${lacking.statement}; ${sufferers}`,
      },
    ];
  });
}

type Lack = Pick<Suspicion, "pointer" | "statement" | "figures">;

function lackOf(host: HostFact): Lack | null {
  const { busy, steal, cpuWait, memoryWait, cores } = host;
  if (steal.after.count > 0 && steal.after.median >= minSteal && steal.after.median > 2 * steal.before.q95) {
    const statement = `the hypervisor took ${figure(steal.after.median, "ratio")} of its CPU time, was ${figure(steal.before.median, "ratio")}`;
    return {
      pointer: "CPU steal",
      statement,
      figures: { name: "CPU steal", unit: "ratio", before: steal.before.median, after: steal.after.median },
    };
  }
  if (memoryWait.after.count > 0 && memoryWait.after.median >= minMemoryWait && memoryWait.after.median > 2 * memoryWait.before.q95) {
    const waited = `tasks waited for memory in ${figure(memoryWait.after.median, "ratio")} of the time, was ${figure(memoryWait.before.median, "ratio")}`;
    const figures = { name: "memory pressure", unit: "ratio", before: memoryWait.before.median, after: memoryWait.after.median };
    return { pointer: "memory", statement: waited, figures };
  }
  // Cores that were busy before with work that gives way are taken by work that does not: tasks wait more.
  const isFuller =
    busy.after.median >= busy.before.median + full.growth || cpuWait.after.median >= cpuWait.before.median + full.waitingGrowth;
  const isFull = busy.after.count > 0 && busy.after.median >= full.busy && isFuller;
  if (!isFull || (cpuWait.after.median > 0 && cpuWait.after.median < full.waiting)) return null;
  const taker = host.programs[0];
  if (taker === undefined || taker.service !== "" || taker.coresAfter - taker.coresBefore < takenPart * cores) return null;
  return {
    pointer: `${taker.name}${taker.processes > 1 ? ` (${taker.processes} processes)` : ""}`,
    statement: `all ${cores} cores are busy (${figure(busy.after.median, "ratio")}, was ${figure(busy.before.median, "ratio")}): ${takenText(taker)}`,
    figures: { name: "CPU busy", unit: "ratio", before: busy.before.median, after: busy.after.median },
  };
}

function takenText({ name, processes, coresAfter, coresBefore }: ProcessShareFact): string {
  const what = processes > 1 ? `${processes} processes ${name} take` : `${name} takes`;
  return `${what} ${figure(coresAfter, "")} cores, was ${figure(coresBefore, "")}`;
}
