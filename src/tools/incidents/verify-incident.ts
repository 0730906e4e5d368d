import * as z from "zod";
import { CoralError } from "../../base/errors.ts";
import type { TimeRange } from "../../model/diagnosis.ts";
import { type Incident, type IncidentSymptom, incidentId, type RequestTotals } from "../../model/incident.ts";
import type { ColonyBackend } from "../contract/backend.ts";
import { defineTool, type ToolCallContext } from "../contract/define-tool.ts";
import { durationInput } from "../contract/duration-input.ts";
import { cutList } from "../contract/missing-data.ts";
import { diagnoseTool } from "../diagnosis/diagnose-tool.ts";
import { completenessOf } from "../schemas/completeness.ts";
import { type Verification, verificationSchema, verificationVerdicts } from "../schemas/incident.ts";
import { findIncident, shortened } from "./incident-view.ts";
import { countSlower, isBeyond, isOfRoute, measured, type Served, servedOf } from "./judge-objective.ts";

type SymptomVerdict = Verification["symptoms"][number]["verdict"];

/** Settling time: requests in the first seconds after a fix may have started before it. */
const settleMs = 10_000;
const usualMs = 60 * 60_000;
const guardMs = 60_000;
/** Least requests since the fix for a verdict. */
const minRequests = 20;
const leastAfterMs = 30_000;
/** Standard deviations that count as better or worse. */
const sigmas = 3;
/** Keeps one answer under 1,500 tokens of a model's context. */
const symptomsShown = 8;
/** Events that count as the fix. */
const fixKinds = new Set(["deployment", "deployment-rolled-back", "service-restarted", "binary-updated"]);

export const verifyIncident = defineTool({
  name: "coral_verify",
  title: "Verify a fix",
  description: "Check after a fix whether an incident is resolved, improved, unchanged or worse: indicators before, during and after.",
  input: z.object({
    incident: z.string().min(1).max(40).describe("such as inc-7"),
    fixed: durationInput({ minMs: 0, maxMs: 7 * 86_400_000 })
      .optional()
      .describe("how long ago it was fixed; default: the last deployment or restart, else when it was last bad"),
  }),
  output: verificationSchema,
  permission: "read",
  changes: false,
  handle: async (backend: ColonyBackend, input, context) => {
    const incident = await findIncident(backend, input.incident, context);
    if (incident.mergedInto !== null)
      throw new CoralError({
        code: "invalid",
        message: `Cannot verify ${incidentId(incident.number)}: it is part of ${incidentId(incident.mergedInto)}; verify that one`,
      });
    const nowMs = backend.nowMs();
    const fix = input.fixed === undefined ? await fixOf(backend, incident, context) : { atMs: nowMs - input.fixed, by: "as given" };
    const times = timesOf(incident, fix.atMs, nowMs);
    const services = [...new Set(incident.symptoms.map(({ service }) => service))];
    const [totals, places] = await Promise.all([
      backend.requestTotals({ services, ranges: [times.before, times.during, times.after] }, context),
      backend.services({ processes: false }, context),
    ]);
    const isPresent = (service: string): boolean => places.some((place) => place.service === service && place.instances > 0);
    const symptoms = incident.symptoms.map((symptom) => verified(symptom, totals, isPresent(symptom.service)));
    const isEarly = nowMs - fix.atMs < leastAfterMs;
    const verdict = isEarly ? "too-early" : worstOf(symptoms.map((one) => one.verdict));
    const cause = verdict === "too-early" ? null : await causeAfter(backend, incident, times, context);
    const rank = (one: Verification["symptoms"][number]): number => verificationVerdicts.indexOf(one.verdict);
    const ranked = symptoms.map((one) => ({ ...one, route: shortened(one.route) })).sort((a, b) => rank(a) - rank(b));
    const shown = cutList(ranked, symptomsShown, "indicators", "the worst first");
    const output: Verification = {
      id: incidentId(incident.number),
      verdict,
      summary: summaryOf(verdict, symptoms, nowMs - fix.atMs),
      fixedAt: new Date(fix.atMs).toISOString(),
      fixedBy: shortened(fix.by),
      symptoms: shown.items,
      cause,
    };
    return { output, completeness: completenessOf(shown.notes) };
  },
});

/** Time of the newest change of a service on the path to the cause; without one, the end of the last bad window. */
async function fixOf(backend: ColonyBackend, incident: Incident, context: ToolCallContext): Promise<{ atMs: number; by: string }> {
  const nowMs = backend.nowMs();
  const services = new Set([...incident.symptoms.map(({ service }) => service), ...(incident.cause?.chain ?? [])]);
  const untilMs = incident.endedMs === null ? nowMs : incident.endedMs + guardMs;
  const events = await backend.events({ sinceMs: nowMs - incident.startedMs, limit: 1_000 }, context);
  const changes = events.filter(({ kind, service, at }) => {
    const atMs = Date.parse(at);
    return fixKinds.has(kind) && service !== null && services.has(service) && atMs > incident.startedMs + guardMs / 2 && atMs <= untilMs;
  });
  const [last] = changes.sort((a, b) => Date.parse(b.at) - Date.parse(a.at));
  if (last) return { atMs: Date.parse(last.at), by: last.message };
  const lastBadMs = Math.max(...incident.symptoms.map((symptom) => symptom.lastBadMs));
  if (incident.symptoms.every(({ okSinceMs }) => okSinceMs !== null)) return { atMs: lastBadMs, by: "when it was last bad" };
  return { atMs: nowMs - 2 * guardMs, by: "no change was seen: the last 2 minutes" };
}

interface Times {
  before: TimeRange;
  during: TimeRange;
  after: TimeRange;
}

function timesOf({ startedMs }: Incident, fixedMs: number, nowMs: number): Times {
  return {
    before: { fromMs: startedMs - guardMs - usualMs, untilMs: startedMs - guardMs },
    during: { fromMs: startedMs, untilMs: Math.max(startedMs + 1, fixedMs) },
    after: { fromMs: Math.min(fixedMs + settleMs, nowMs), untilMs: nowMs + 1_000 },
  };
}

function verified(symptom: IncidentSymptom, totals: readonly RequestTotals[], isPresent: boolean): Verification["symptoms"][number] {
  const { service, route, measure, limit } = symptom;
  const of = (range: number): Served =>
    servedOf(totals.filter((one) => one.range === range && one.service === service && isOfRoute(one, route)));
  const [before, during, after] = [of(0), of(1), of(2)];
  const amounts = (served: Served) => ({ requests: served.requests, value: rounded(measured(served, measure, 1)) });
  const verdict = measure === "down" ? downVerdict(after, isPresent) : verdictOf({ measure, limit, before, during, after });
  return { service, route, measure, limit, before: amounts(before), during: amounts(during), after: amounts(after), verdict };
}

/** Rounds to four digits. */
const rounded = (value: number | null): number | null => (value === null ? null : Number(value.toPrecision(4)));

/** `down` is resolved when the service serves requests again and most succeed. */
function downVerdict(after: Served, isPresent: boolean): SymptomVerdict {
  if (after.requests < minRequests) return isPresent ? "too-early" : "unchanged";
  return after.errors < after.requests / 2 ? "resolved" : "unchanged";
}

interface Compared {
  measure: IncidentSymptom["measure"];
  limit: number | null;
  before: Served;
  during: Served;
  after: Served;
}

/** Resolved: within the limit that closes incidents. Else compares the share of bad requests after with that during, beyond chance. */
export function verdictOf({ measure, limit, during, after }: Compared): SymptomVerdict {
  if (limit === null || after.requests < minRequests) return "too-early";
  if (!isBeyond(after, measure, limit, 0)) return "resolved";
  const bad = (served: Served): number => (measure === "latency" ? countSlower(served, limit) : served.errors);
  if (during.requests === 0) return "unchanged";
  const [shareDuring, shareAfter] = [bad(during) / during.requests, bad(after) / after.requests];
  const pooled = (bad(during) + bad(after)) / (during.requests + after.requests);
  const error = Math.sqrt(pooled * (1 - pooled) * (1 / during.requests + 1 / after.requests));
  // Every request may exceed the limit in both ranges while the durations still improved.
  const [slow, now] = [measured(during, measure, 1) ?? 0, measured(after, measure, 1) ?? 0];
  const isSaturated = measure === "latency" && error === 0;
  if (isSaturated) return now < slow / 1.3 ? "improved" : now > slow * 1.3 ? "worse" : "unchanged";
  if (shareAfter < shareDuring - sigmas * error) return "improved";
  return shareAfter > shareDuring + sigmas * error ? "worse" : "unchanged";
}

function worstOf(verdicts: readonly SymptomVerdict[]): SymptomVerdict {
  const known = verdicts.filter((verdict) => verdict !== "too-early");
  const worst = verificationVerdicts.find((verdict) => verdict !== "too-early" && known.includes(verdict));
  // Indicators without requests yet keep the verdict open.
  return worst === undefined || (worst === "resolved" && known.length < verdicts.length) ? "too-early" : worst;
}

/** Diagnosis of the time after, compared with the time before the incident. */
async function causeAfter(
  backend: ColonyBackend,
  incident: Incident,
  { before, after }: Times,
  context: ToolCallContext,
): Promise<string | null> {
  const iso = (ms: number): string => new Date(ms).toISOString();
  const range = ({ fromMs, untilMs }: TimeRange): string => `${iso(fromMs)}..${iso(untilMs)}`;
  const input = { question: incident.symptoms[0]?.service ?? "", between: range(after), baseline: range(before) };
  try {
    const result = await diagnoseTool.call(backend, input, context);
    return result.verdict === "issue" ? result.summary : null;
  } catch (error) {
    // The service may be unknown by now; the verdict does not depend on the diagnosis.
    if (error instanceof CoralError && (error.code === "not-found" || error.code === "invalid")) return null;
    throw error;
  }
}

function summaryOf(verdict: SymptomVerdict, symptoms: Verification["symptoms"], sinceMs: number): string {
  const requests = symptoms.reduce((sum, { after }) => sum + after.requests, 0);
  const since = `${Math.max(0, Math.round(sinceMs / 1_000))} s`;
  const bad = symptoms.filter((one) => one.verdict === verdict).length;
  const which = symptoms.length === 1 ? "the indicator" : `${bad} of ${symptoms.length} indicators`;
  return {
    resolved: `Resolved: ${symptoms.length === 1 ? "the indicator is" : `all ${symptoms.length} indicators are`} back within ${symptoms.length === 1 ? "its limit" : "their limits"}.`,
    improved: `Improved, not resolved: ${which} got better and ${bad === 1 ? "is" : "are"} still beyond the limit.`,
    unchanged: `Unchanged: ${which} ${bad === 1 ? "is" : "are"} as bad as during the incident.`,
    worse: `Worse: ${which} ${bad === 1 ? "is" : "are"} worse than during the incident.`,
    "too-early": `Too early to tell: ${requests} requests in ${since} since the fix; at least ${minRequests} of each indicator and ${leastAfterMs / 1_000} s are needed.`,
  }[verdict];
}
