/** Refines causes with facts about databases: from their traffic, and from the database itself where the agent has credentials. */

import { CoralError } from "../../base/errors.ts";
import { shellWord } from "../../base/escape-text.ts";
import { type DatabaseKnowledge, type Diagnosis, databaseCandidates, judgeDatabases, worstStatement } from "../../diagnosis/index.ts";
import type { DatabaseTraffic } from "../../model/database-traffic.ts";
import type { ColonyBackend } from "../contract/backend.ts";
import type { ToolCallContext } from "../contract/define-tool.ts";
import { connectLine } from "../databases/connect-line.ts";
import { inspectService } from "../databases/inspect-service.ts";
import type { CompletenessNote } from "../schemas/completeness.ts";
import type { DiagnosisResult } from "../schemas/diagnosis.ts";
import type { DiagnosedTimes } from "./diagnosis-times.ts";

export interface DatabasesRead {
  diagnosis: Diagnosis;
  /** The step that would show more about the first cause. */
  next: DiagnosisResult["next"];
  notes: CompletenessNote[];
}

/** A database reports its current state only, which does not help with an incident that is over. */
const presentMs = 3 * 60_000;
const maxInspected = 3;
const budgetMs = 3_000;

export async function readDatabases(
  backend: ColonyBackend,
  diagnosis: Diagnosis,
  times: DiagnosedTimes,
  context: ToolCallContext,
): Promise<DatabasesRead> {
  if (diagnosis.causes.length === 0) return { diagnosis, next: [], notes: [] };
  const notes: CompletenessNote[] = [];
  const traffic = await databaseTraffic(backend, times, notes, context);
  if (traffic === null) return { diagnosis, next: [], notes };
  const candidates = databaseCandidates(diagnosis, traffic).slice(0, maxInspected);
  if (candidates.length === 0) return { diagnosis, next: [], notes };
  const isPresent = times.after.untilMs > backend.nowMs() - presentMs;
  const databases = isPresent ? await Promise.all(candidates.map((service) => inspected(backend, service, traffic, notes, context))) : [];
  const judged = judgeDatabases(diagnosis, { traffic, databases });
  return { diagnosis: judged, next: isPresent ? nextSteps(judged, traffic, databases) : [], notes };
}

/** Null with a note when the store cannot answer: the causes stand as the statistics found them. */
async function databaseTraffic(
  backend: ColonyBackend,
  times: DiagnosedTimes,
  notes: CompletenessNote[],
  context: ToolCallContext,
): Promise<DatabaseTraffic | null> {
  try {
    return await backend.databaseTraffic(times, context);
  } catch (error) {
    context.signal.throwIfAborted();
    notes.push({ kind: "no-data", message: `database traffic was not read: ${CoralError.from(error).message}` });
    return null;
  }
}

async function inspected(
  backend: ColonyBackend,
  service: string,
  traffic: DatabaseTraffic,
  notes: CompletenessNote[],
  context: ToolCallContext,
): Promise<DatabaseKnowledge["databases"][number]> {
  const own = traffic.statements.filter((one) => one.service === service);
  const statement = worstStatement(own, service) ?? own[0];
  const isSql = statement !== undefined && statement.protocol !== "redis";
  const limited = { ...context, signal: AbortSignal.any([context.signal, AbortSignal.timeout(budgetMs)]) };
  try {
    const { found, problems } = await inspectService(backend, { service, statement: isSql ? statement.statement : null }, limited);
    // Each agent that knows the database may have the same problem.
    const messages = new Set(problems.filter(({ code }) => code !== "not-found").map(({ message }) => message));
    for (const message of messages) if (!notes.some((note) => note.message === message)) notes.push({ kind: "no-data", message });
    return { service, inspected: found };
  } catch (error) {
    context.signal.throwIfAborted();
    notes.push({ kind: "no-data", message: CoralError.from(error).message });
    return { service, inspected: [] };
  }
}

function nextSteps(
  { causes: [first] }: Diagnosis,
  { statements, pools }: DatabaseTraffic,
  databases: DatabaseKnowledge["databases"],
): DiagnosisResult["next"] {
  if (first === undefined) return [];
  const used = new Set([first.service, ...pools.filter(({ caller }) => caller === first.service).map(({ service }) => service)]);
  const database = databases.find(({ service }) => used.has(service));
  if (database === undefined) return [];
  const { service } = database;
  if (database.inspected.length > 0)
    return [
      {
        command: `coral query database ${shellWord(service)}`,
        why: "sessions, locks, plans and tables as they are now; one read-only session of about 100 ms",
      },
    ];
  const port = statements.find((one) => one.service === service)?.port;
  return [
    {
      command: connectLine(service, port),
      why: "run it on the database's host with a read-only account; diagnoses then name plans, missing indexes and lock holders",
    },
  ];
}
