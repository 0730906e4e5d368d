/**
 * Refines a cause with facts about databases: the slow statement, the missing index, the holder of a lock, or an exhausted pool of the
 * caller while the database is as fast as usual.
 */

import type { InspectedDatabase } from "../model/database-facts.ts";
import type { DatabaseTraffic, PoolTraffic, StatementTraffic } from "../model/database-traffic.ts";
import { type DatabaseFinding, type DatabaseFindingKind, databaseFindings } from "./database-findings.ts";
import type { Cause, Diagnosis } from "./diagnose.ts";
import { failureMeaning } from "./failure-meaning.ts";
import { figure, times } from "./figure-text.ts";
import type { CauseKind, Suspicion } from "./suspicion.ts";

export interface KnownDatabase {
  service: string;
  /** Empty without credentials, or if the database is not reachable. */
  inspected: readonly InspectedDatabase[];
}

export interface DatabaseKnowledge {
  traffic: DatabaseTraffic;
  databases: readonly KnownDatabase[];
}

/** Thresholds for a slow statement: relative and absolute slowdown, and number of requests. */
const slower = { times: 1.5, byUs: 2_000, requests: 3 };
const minFailed = 0.05;
/** Below this factor the database counts as steady for its caller. */
const steadyTimes = 1.3;
const busyPart = 0.8;
const steadyKinds: ReadonlySet<CauseKind> = new Set(["slow", "slow-code"]);
const kindOf: Record<DatabaseFindingKind, CauseKind | null> = {
  "lock-wait": "lock-wait",
  "missing-index": "missing-index",
  evictions: "evictions",
  "connections-full": "connections-full",
  "big-key": "slow-statement",
  "slow-command": "slow-statement",
  "idle-in-transaction": null,
  "dead-rows": null,
};

export function judgeDatabases(diagnosis: Diagnosis, knowledge: DatabaseKnowledge): Diagnosis {
  const causes = diagnosis.causes.map((cause) => refined(cause, knowledge));
  return { ...diagnosis, causes };
}

/** Services whose databases may refine a cause: the cause itself, and what it calls. Strongest first. */
export function databaseCandidates({ causes }: Diagnosis, { statements, pools }: DatabaseTraffic): string[] {
  const databases = new Set(statements.map(({ service }) => service));
  const found = causes.flatMap(({ service, chain }) => [
    service,
    ...chain,
    ...pools.filter(({ caller }) => caller === service).map((pool) => pool.service),
  ]);
  return [...new Set(found)].filter((service) => databases.has(service));
}

/** The statement with most of the additional time, or most failures; null if none became slower or fails more. */
export function worstStatement(statements: readonly StatementTraffic[], service: string): StatementTraffic | null {
  let [worst, most]: [StatementTraffic | null, number] = [null, 0];
  for (const one of statements) {
    const cost = one.service === service ? addedCost(one) : 0;
    if (cost > most) [worst, most] = [one, cost];
  }
  return worst;
}

/** Microseconds per second. */
function addedCost({ before, after }: StatementTraffic): number {
  if (after.requests < slower.requests) return 0;
  const isSlower = after.meanUs >= slower.times * before.meanUs && after.meanUs >= before.meanUs + slower.byUs;
  const isFailing = after.failedRatio >= before.failedRatio + minFailed;
  if (!isSlower && !isFailing) return 0;
  return (after.meanUs - before.meanUs) * after.perSecond + (isFailing ? after.failedRatio * after.perSecond * 1_000_000 : 0);
}

function refined(cause: Cause, { traffic, databases }: DatabaseKnowledge): Cause {
  const own = databases.find(({ service }) => service === cause.service);
  const findings = (own?.inspected ?? []).flatMap(({ facts }) => databaseFindings(facts));
  const first = findings.find((finding) => kindOf[finding.kind] !== null);
  const statement = worstStatement(traffic.statements, cause.service);
  if (first !== undefined) return withEvidence(cause, [findingSuspicion(cause, first), ...statementEvidence(cause, statement)]);
  if (statement !== null) return withStatement(cause, statement);
  return heldByLock(cause, { traffic, databases }) ?? exhaustedPool(cause, { traffic, databases }) ?? cause;
}

/** The caller is slow because its statements wait. They end, and are counted, only when the lock is released. */
function heldByLock(cause: Cause, { traffic, databases }: DatabaseKnowledge): Cause | null {
  const used = new Set(traffic.pools.filter(({ caller }) => caller === cause.service).map(({ service }) => service));
  for (const { service, inspected } of databases) {
    if (!used.has(service)) continue;
    const lock = inspected.flatMap(({ facts }) => databaseFindings(facts)).find(({ kind }) => kind === "lock-wait");
    if (lock === undefined) continue;
    const chain = cause.chain.includes(service) ? cause.chain : [...cause.chain, service];
    return { ...withEvidence({ ...cause, service, chain }, [findingSuspicion({ ...cause, service }, lock)]), change: null };
  }
  return null;
}

/**
 * The caller's requests take longer, single statements do not, and all connections are in use: requests wait for the caller's own pool.
 * Requires one more sign besides the constant number: the number rose at the onset, the statements fill the connections, or the sessions
 * are idle in transactions.
 */
function exhaustedPool(cause: Cause, { traffic, databases }: DatabaseKnowledge): Cause | null {
  if (!steadyKinds.has(cause.kind)) return null;
  for (const pool of traffic.pools) {
    if (pool.caller !== cause.service || !isAtItsMost(pool)) continue;
    const sign = poolSign(pool, databases);
    if (sign === "") continue;
    const { most } = pool.openAfter;
    const steady = `statements at ${pool.service} take ${figure(pool.meanUsAfter, "us")}, usual ${figure(pool.meanUsBefore, "us")}`;
    const statement = `all ${most} connections of ${pool.caller} to ${pool.service} are in use (${sign}) and requests wait for one; the database is as fast as usual: ${steady}`;
    const own = suspicion(cause, "pool-exhausted", `connection pool of ${pool.caller} to ${pool.service} (${most})`, statement, {
      name: `connections to ${pool.service}`,
      unit: "",
      before: pool.openBefore,
      after: most,
    });
    return withEvidence(cause, [own]);
  }
  return null;
}

function isAtItsMost({ openAfter: { least, most }, openBefore, meanUsAfter, meanUsBefore }: PoolTraffic): boolean {
  return most >= 1 && least === most && most >= openBefore && meanUsBefore > 0 && meanUsAfter <= steadyTimes * meanUsBefore;
}

function poolSign(pool: PoolTraffic, databases: readonly KnownDatabase[]): string {
  const { openBefore, busyAfter, openAfter } = pool;
  const idle = databases
    .filter(({ service }) => service === pool.service)
    .flatMap(({ inspected }) => inspected.flatMap(({ facts }) => databaseFindings(facts)))
    .find(({ kind }) => kind === "idle-in-transaction");
  if (idle !== undefined) return idle.statement;
  if (openBefore > 0 && openAfter.most > openBefore) return `usually ${openBefore}, now always ${openAfter.most}`;
  return busyAfter >= busyPart * openAfter.most ? `statements keep ${figure(busyAfter, "")} of them busy` : "";
}

/** A lock that was concluded from how the statement waits stays the cause; its figures are the second evidence. */
function withStatement(cause: Cause, statement: StatementTraffic): Cause {
  const added = statementEvidence(cause, statement);
  const [first, ...others] = cause.evidence;
  const isLock = cause.kind === "lock-wait" && cause.pointer === statement.statement && added[0]?.kind === "slow-statement";
  return isLock && first !== undefined ? { ...cause, evidence: [first, ...added, ...others].slice(0, 4) } : withEvidence(cause, added);
}

function statementEvidence(cause: Cause, found: StatementTraffic | null): Suspicion[] {
  if (found === null) return [];
  const { before, after, statement, protocol, failure } = found;
  const isFailing = after.failedRatio >= before.failedRatio + minFailed;
  const rate = `${figure(after.perSecond, "/s")}, ${figure(after.responseBytes, "By")} each`;
  if (!isFailing) {
    const text = `${statement} takes ${figure(after.meanUs, "us")}, was ${figure(before.meanUs, "us")}${times(before.meanUs, after.meanUs)}; ${rate}`;
    const figures = { name: "duration of a statement", unit: "us", before: before.meanUs, after: after.meanUs };
    return [suspicion(cause, "slow-statement", statement, text, figures)];
  }
  const meaning = failureMeaning(protocol, failure);
  const why = failure === "" ? "" : ` with ${failure}${meaning === null ? "" : ` (${meaning.text})`}`;
  const text = `${statement} fails in ${figure(after.failedRatio, "ratio")}${why}, usual ${figure(before.failedRatio, "ratio")}; ${rate}`;
  const figures = { name: "failed requests", unit: "ratio", before: before.failedRatio, after: after.failedRatio };
  return [suspicion(cause, meaning?.kind ?? "failing", statement, text, figures)];
}

function findingSuspicion(cause: Cause, finding: DatabaseFinding): Suspicion {
  const { name, unit, value } = finding.figure;
  const fix = finding.fix === "" ? "" : `; fix: ${finding.fix}`;
  return suspicion(cause, kindOf[finding.kind] ?? cause.kind, finding.pointer, `${finding.statement}${fix}`, {
    name,
    unit,
    before: 0,
    after: value,
  });
}

function suspicion(cause: Cause, kind: CauseKind, pointer: string, statement: string, figures: Suspicion["figures"]): Suspicion {
  return { service: cause.service, kind, score: cause.score, rawScore: cause.score, pointer, statement, figures, explainedBy: "" };
}

function withEvidence(cause: Cause, added: readonly Suspicion[]): Cause {
  const [first] = added;
  if (first === undefined) return cause;
  return { ...cause, kind: first.kind, pointer: first.pointer, evidence: [...added, ...cause.evidence].slice(0, 4) };
}
