/** Runs a diagnosis: reads the facts of both time ranges, ranks causes, and words the answer and the next steps. */

import { type Cause, type CauseKind, type Diagnosis, diagnose, type Suspicion } from "../../diagnosis/index.ts";
import type { DiagnosisFacts, EvidenceFact } from "../../model/diagnosis.ts";
import type { DiagnosisResult } from "../schemas/diagnosis.ts";
import { type DiagnosedTimes, leastUsualMs } from "./diagnosis-times.ts";
import { evidenceCommands, nextSteps } from "./next-steps.ts";
import type { Question } from "./question-words.ts";

export interface DiagnosisRun {
  result: DiagnosisResult;
  /** Evidence by the ids in the answer. */
  evidence: EvidenceFact[];
}

const maxRuledOut = 3;
const maxNext = 3;

export async function runDiagnosis(
  times: DiagnosedTimes,
  question: Pick<Question, "service" | "symptom">,
  readFacts: (times: DiagnosedTimes) => Promise<DiagnosisFacts>,
  /** Refines causes; absent: they stay as ranked. */
  readMore?: (diagnosis: Diagnosis) => Promise<{ diagnosis: Diagnosis; next: DiagnosisResult["next"] }>,
): Promise<DiagnosisRun> {
  const usualMs = times.before.reduce((sum, { fromMs, untilMs }) => sum + untilMs - fromMs, 0);
  if (usualMs < leastUsualMs) return { result: resultOf("not-enough-data", times, question.service, null), evidence: [] };
  const facts = await readFacts(times);
  const found = diagnose(facts, { entry: question.service, symptom: question.symptom });
  const { diagnosis, next } = readMore === undefined ? { diagnosis: found, next: [] } : await readMore(found);
  const verdict = diagnosis.services === 0 ? "not-enough-data" : diagnosis.causes.length === 0 ? "no-issue" : "issue";
  const evidence = diagnosis.causes.flatMap((cause) => cause.evidence.map((one) => evidenceOf(one, times, facts)));
  const result = resultOf(verdict, times, question.service, { diagnosis, facts });
  return { result: { ...result, next: eachOnce([...next, ...result.next]).slice(0, maxNext) }, evidence };
}

/** A step suggested for a database replaces the generic one with the same command. */
function eachOnce(steps: DiagnosisResult["next"]): DiagnosisResult["next"] {
  return steps.filter(({ command }, index) => steps.findIndex((other) => other.command === command) === index);
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
    isOver: times.isOver,
    causes: causes.map((cause) => ({
      service: cause.service,
      kind: externals.has(cause.service) ? "external-dependency" : cause.kind,
      pointer: cause.pointer,
      confidence: Math.round(cause.confidence * 100) / 100,
      summary: headline(cause, externals),
      chain: cause.chain,
      evidence: cause.evidence.map((one) => ({ id: idOf(one, times), statement: one.statement })),
      change: cause.change === null ? null : `${cause.change.message} (${iso(cause.change.timeMs).slice(11, 19)}Z)`,
    })),
    ruledOut: (found?.diagnosis.ruledOut ?? []).slice(0, maxRuledOut),
    next: first && found ? nextSteps(first, { ...found.facts, after: times.after }) : [],
  };
}

function quietText(verdict: DiagnosisResult["verdict"], diagnosis: Diagnosis | undefined): string {
  if (verdict === "not-enough-data") return "Not enough data before this time for a baseline; wait a few minutes, or pass a baseline";
  const nearest = diagnosis?.nearest ?? null;
  const largest =
    nearest === null || nearest.score <= 0
      ? ""
      : ` Largest deviation, still within what is common: ${nearest.service}: ${nearest.statement}.`;
  return `No issue: requests, spans, logs and resources of ${diagnosis?.services ?? 0} services are as usual.${largest}`;
}

const kindWords: Record<CauseKind, string> = {
  resource: "uses far more of a resource than usual",
  slow: "is slow by itself",
  failing: "fails by itself",
  "slow-code": "spends more time in its own code",
  "slow-link": "is slow to reach",
  "changed-path": "takes a different code path than usual",
  "more-traffic": "gets far more requests than usual",
  host: "is overloaded and slows its services",
  "hot-code": "burns CPU in its own code",
  "blocked-thread": "is blocked: one busy thread delays all of its routes",
  waiting: "is slow because it waits: it uses no more CPU",
  "slow-statement": "takes longer for one statement",
  "lock-wait": "has waiting statements, most likely for a lock",
  "pool-exhausted": "has no free connection in its pool",
  "disk-wait": "waits for a slow disk",
  "packet-loss": "is slow to reach: packets are lost",
  "cpu-limit": "is throttled at its CPU limit",
  "out-of-memory": "runs out of memory",
  down: "is down",
  "missing-index": "reads a whole table: an index is missing",
  "connections-full": "has no free connections",
  evictions: "evicts keys: its memory is full",
};

function headline({ service, kind }: Cause, externals: ReadonlySet<string>): string {
  if (externals.has(service) && (kind === "slow" || kind === "failing"))
    return `External dependency ${service} ${kind === "failing" ? "fails" : "is slow"}`;
  return `${service} ${kindWords[kind]}`;
}

function idOf({ service, kind, pointer, figures }: Suspicion, { after }: DiagnosedTimes): string {
  return evidenceId([service, kind, pointer, figures.name, String(after.fromMs), String(after.untilMs)]);
}

function evidenceOf(suspicion: Suspicion, times: DiagnosedTimes, facts: DiagnosisFacts): EvidenceFact {
  const { service, kind, pointer, statement, figures } = suspicion;
  const { before, after } = times;
  return {
    id: idOf(suspicion, times),
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
    commands: evidenceCommands(suspicion, { ...facts, after }),
  };
}

/** The same evidence always has the same id: FNV-1a over its parts, 8 hex digits. */
function evidenceId(parts: readonly string[]): string {
  let hash = 0x811c9dc5;
  for (const character of parts.join("\u0000")) {
    hash ^= character.codePointAt(0) ?? 0;
    hash = Math.imul(hash, 0x01000193) >>> 0;
  }
  return `ev-${hash.toString(16).padStart(8, "0")}`;
}
