import * as z from "zod";
import { CoralError } from "../../base/errors.ts";
import type { Diagnosis } from "../../diagnosis/index.ts";
import type { EvidenceFact } from "../../model/diagnosis.ts";
import type { ColonyBackend } from "../contract/backend.ts";
import { sinceInput } from "../contract/common-inputs.ts";
import { defineTool, type ToolCallContext } from "../contract/define-tool.ts";
import { activeAgents } from "../contract/match-agents.ts";
import { type CompletenessNote, completenessOf } from "../schemas/completeness.ts";
import { diagnosisSchema } from "../schemas/diagnosis.ts";
import { trafficNotes } from "../traffic/traffic-notes.ts";
import { timesOf } from "./diagnosis-times.ts";
import { type Question, readQuestion } from "./question-words.ts";
import { type DatabasesRead, readDatabases } from "./read-databases.ts";
import { readProfiles } from "./read-profiles.ts";
import { runDiagnosis } from "./run-diagnosis.ts";

const dayMs = 86_400_000;

export const diagnoseTool = defineTool({
  name: "coral_diagnose",
  title: "Root cause",
  description:
    "Start here in an incident. Find the root cause: ranked causes with evidence, what was ruled out, the next step; or no issue.",
  input: z.object({
    question: z.string().min(1).max(500).optional().describe("a service, or words: checkout slow"),
    since: sinceInput("5m", { minMs: 60_000, maxMs: dayMs }),
    at: z.string().min(1).optional().describe("a time, or how long ago"),
    between: z.string().min(1).optional().describe("bad time: 40m..25m"),
    baseline: z.string().min(1).optional().describe("normal time"),
  }),
  output: diagnosisSchema,
  permission: "read",
  changes: false,
  handle: async (backend: ColonyBackend, input, context) => {
    const question = await questionOf(backend, input.question, context);
    const times = await timesOf(input, backend.nowMs(), (request) => backend.diagnosisOnset(request, context));
    const readNotes: CompletenessNote[] = [];
    const readMore = async (diagnosis: Diagnosis): Promise<DatabasesRead> => {
      const profiles = await readProfiles(backend, diagnosis, times, context);
      const read = await readDatabases(backend, profiles.diagnosis, times, context);
      readNotes.push(...profiles.notes, ...read.notes);
      return read;
    };
    const { result, evidence } = await runDiagnosis(times, question, (asked) => backend.diagnosisFacts(asked, context), readMore);
    await keepEvidence(backend, evidence);
    const agents = activeAgents(await backend.agents(context));
    const sinceMs = times.after.untilMs - times.after.fromMs;
    const notes: CompletenessNote[] = await trafficNotes(backend, { agents, chosen: undefined, sinceMs, isEmpty: false }, context);
    notes.push(...readNotes);
    if (question.unknown.length > 0)
      notes.unshift({ kind: "no-data", message: `ignored words that are neither a service nor a symptom: ${question.unknown.join(", ")}` });
    return { output: result, completeness: completenessOf(notes) };
  },
});

/** A failing write of the evidence ids, as on a full disk, must not lose the answer. */
async function keepEvidence(backend: ColonyBackend, evidence: readonly EvidenceFact[]): Promise<void> {
  try {
    await backend.keepEvidence(evidence);
  } catch {
    // coral evidence reports these ids as unknown then.
  }
}

async function questionOf(backend: ColonyBackend, text: string | undefined, context: ToolCallContext): Promise<Question> {
  if (text === undefined) return { service: null, symptom: null, unknown: [] };
  const [places, senders] = await Promise.all([
    backend.services({ processes: false }, context),
    backend.spanServices({ sinceMs: dayMs }, context),
  ]);
  const services = [...new Set([...places.map(({ service }) => service), ...senders])].sort();
  const question = readQuestion(text, services);
  if (question.service === null && question.symptom === null) {
    const known = services.length === 0 ? "" : ` (${services.slice(0, 10).join(", ")})`;
    throw new CoralError({
      code: "not-found",
      message: `Cannot diagnose "${text}": it names no known service and no symptom; use a service${known} or words such as slow, errors`,
      details: { question: text },
    });
  }
  return question;
}
