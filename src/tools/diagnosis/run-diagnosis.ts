/** From a question to an answer in words: facts of the two times, the statistics, and what to do next. */

import { type Cause, type CauseKind, type Diagnosis, diagnose, type Suspicion } from "../../diagnosis/index.ts";
import type { DiagnosisFacts, EvidenceFact } from "../../model/diagnosis.ts";
import type { DiagnosisResult } from "../schemas/diagnosis.ts";
import { type DiagnosedTimes, leastUsualMs } from "./diagnosis-times.ts";
import { evidenceId } from "./evidence-id.ts";
import type { Question } from "./question-words.ts";

export interface DiagnosisRun {
  result: DiagnosisResult;
  /** What the answer's evidence ids stand for. */
  evidence: EvidenceFact[];
}

const minuteMs = 60_000;
const maxRuledOut = 3;

export async function runDiagnosis(
  times: DiagnosedTimes,
  question: Pick<Question, "service" | "symptom">,
  readFacts: (times: DiagnosedTimes) => Promise<DiagnosisFacts>,
): Promise<DiagnosisRun> {
  const usualMs = times.before.reduce((sum, { fromMs, untilMs }) => sum + untilMs - fromMs, 0);
  if (usualMs < leastUsualMs) return { result: resultOf("not-enough-data", times, question.service, null), evidence: [] };
  const facts = await readFacts(times);
  const diagnosis = diagnose(facts, { entry: question.service, symptom: question.symptom });
  const verdict = diagnosis.services === 0 ? "not-enough-data" : diagnosis.causes.length === 0 ? "no-issue" : "issue";
  const evidence = diagnosis.causes.flatMap((cause) => cause.evidence.map((one) => evidenceOf(one, times)));
  return { result: resultOf(verdict, times, question.service, { diagnosis, facts }), evidence };
}

const iso = (ms: number): string => new Date(ms).toISOString();

function resultOf(
  verdict: DiagnosisResult["verdict"],
  times: DiagnosedTimes,
  entry: string | null,
  found: { diagnosis: Diagnosis; facts: DiagnosisFacts } | null,
): DiagnosisResult {
  const causes = found?.diagnosis.causes ?? [];
  const [first] = causes;
  const externals = new Set(found?.facts.externals);
  return {
    verdict,
    summary: first ? headline(first, externals) : quietText(verdict, found?.diagnosis),
    entry,
    from: iso(times.after.fromMs),
    until: iso(times.after.untilMs),
    comparedWith: times.before.map(({ fromMs, untilMs }) => ({ from: iso(fromMs), until: iso(untilMs) })),
    isOnsetFound: times.isOnsetFound,
    causes: causes.map((cause) => ({
      service: cause.service,
      kind: externals.has(cause.service) ? "external-dependency" : cause.kind,
      pointer: cause.pointer,
      confidence: Math.round(cause.confidence * 100) / 100,
      summary: headline(cause, externals),
      chain: cause.chain,
      evidence: cause.evidence.map((one) => ({ id: evidenceOf(one, times).id, statement: one.statement })),
      change: cause.change === null ? null : `${cause.change.message} (${iso(cause.change.timeMs).slice(11, 19)}Z)`,
    })),
    ruledOut: (found?.diagnosis.ruledOut ?? []).slice(0, maxRuledOut),
    next: first ? nextSteps(first, times) : [],
  };
}

function quietText(verdict: DiagnosisResult["verdict"], diagnosis: Diagnosis | undefined): string {
  if (verdict === "not-enough-data")
    return "Too little was observed before the time in question to know what is usual; wait some minutes, or name a baseline";
  const nearest = diagnosis?.nearest ?? null;
  const largest =
    nearest === null || nearest.score <= 0 ? "" : ` Largest deviation, within what is common: ${nearest.service}: ${nearest.statement}.`;
  return `No issue: requests, spans, logs and resources of ${diagnosis?.services ?? 0} services are as usual.${largest}`;
}

const kindWords: Record<CauseKind, string> = {
  resource: "uses far more of a resource than usual",
  slow: "is slow by itself",
  failing: "fails by itself",
  "slow-code": "spends the time in its own code",
  "slow-link": "is slow to reach",
  "changed-path": "takes another path through its code",
  "more-traffic": "gets far more requests than usual",
  host: "runs on a host that is overloaded",
};

function headline({ service, kind }: Cause, externals: ReadonlySet<string>): string {
  if (externals.has(service) && (kind === "slow" || kind === "failing"))
    return `External dependency ${service} ${kind === "failing" ? "fails" : "is slow"}`;
  return `${service} ${kindWords[kind]}`;
}

function evidenceOf(suspicion: Suspicion, { before, after }: DiagnosedTimes): EvidenceFact {
  const { service, kind, pointer, statement, figures } = suspicion;
  return {
    id: evidenceId([service, kind, pointer, figures.name, String(after.fromMs), String(after.untilMs)]),
    service,
    kind,
    pointer,
    statement,
    name: figures.name,
    unit: figures.unit,
    usual: figures.before,
    now: figures.after,
    before,
    after,
    commands: commandsFor(suspicion, sinceOf(after.fromMs, after.untilMs)),
  };
}

function sinceOf(fromMs: number, untilMs: number): string {
  return `${Math.max(5, Math.ceil((untilMs - fromMs) / minuteMs) + 5)}m`;
}

function commandsFor({ service, kind }: Pick<Suspicion, "service" | "kind">, since: string): string[] {
  const name = /^[\w.:/-]+$/.test(service) ? service : `'${service}'`;
  switch (kind) {
    case "resource":
      return [`coral query metrics ${name} --since ${since}`, `coral query summary ${name}`];
    case "slow-code":
    case "slow-link":
      return [`coral query traces ${name} --since ${since}`];
    case "changed-path":
      return [`coral query logs ${name} --since ${since}`, `coral query traces ${name} --since ${since}`];
    default:
      return [`coral query red ${name} --since ${since}`, `coral query summary ${name}`];
  }
}

function nextSteps(first: Cause, { after }: DiagnosedTimes): DiagnosisResult["next"] {
  const [command = "coral query summary"] = commandsFor(first, sinceOf(after.fromMs, after.untilMs));
  const look = { command, why: "look at it; reads stored data, costs nothing at the service" };
  if (first.kind === "resource" || first.kind === "changed-path" || first.kind === "more-traffic") return [look];
  return [look, { command: `coral capture ${first.service} --duration 30s`, why: "see live requests; about 1% CPU at the agent for 30 s" }];
}
