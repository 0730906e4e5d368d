import * as z from "zod";
import type { HotFunctionsRequest } from "../../model/profiles.ts";
import type { ColonyBackend } from "../contract/backend.ts";
import { limitInput, serviceInput, sinceInput } from "../contract/common-inputs.ts";
import { defineTool, type ToolCallContext } from "../contract/define-tool.ts";
import { activeAgents } from "../contract/match-agents.ts";
import { type CompletenessNote, completenessOf } from "../schemas/completeness.ts";
import { type ServiceSummary, type SummaryResult, summaryResultSchema } from "../schemas/summary.ts";
import { findSender } from "../services/find-service.ts";
import { trafficNotes } from "../traffic/traffic-notes.ts";
import { calleeFindings, describeService } from "./describe-service.ts";
import { readOpenIncidents } from "./read-open-incidents.ts";
import { summarizeServices } from "./summarize-services.ts";
import { type ServiceFacts, sortFindings } from "./summary-rules.ts";

const dayMs = 86_400_000;
const hourMs = 3_600_000;
const leastProfileMs = 300_000;
/** Findings shown per service in a list, and for a single service. */
const findingsShown = { short: 3, full: 15 };

export const querySummary = defineTool({
  name: "coral_query_summary",
  title: "Health summary",
  description:
    "Show service health, worst first, with reasons and request figures against the hour before and yesterday. With service: onset, routes, callers, callees, hosts, logs, events.",
  input: z.object({
    service: serviceInput(),
    since: sinceInput("5m", { minMs: 60_000, maxMs: 7 * dayMs }),
    limit: limitInput(20, 1_000),
  }),
  output: summaryResultSchema,
  permission: "read",
  changes: false,
  handle: async (backend: ColonyBackend, input, context) => {
    const agents = activeAgents(await backend.agents(context));
    const service = input.service === undefined ? undefined : await findSender(backend, input.service, context);
    const request = { sinceMs: input.since, ...(service === undefined ? {} : { service }) };
    const [facts, deployments, incidents] = await Promise.all([
      backend.summary(request, context),
      backend.deployments({ ...request, sinceMs: dayMs, limit: 1_000 }, context),
      readOpenIncidents(backend, service, context),
    ]);
    const all = summarizeServices({ service, facts, deployments, agents, nowMs: facts.nowMs });
    const shown = service === undefined ? all.slice(0, input.limit) : all.filter(({ summary }) => summary.service === service).slice(0, 1);
    const services =
      service === undefined
        ? shown.map(({ summary }) => shortened(summary))
        : await Promise.all(shown.map((one) => inFull(backend, { ...one, sinceMs: input.since }, context)));
    const notes = await trafficNotes(backend, { agents, chosen: undefined, service, sinceMs: input.since, isEmpty: false }, context);
    if (all.length > shown.length && service === undefined) {
      notes.unshift({ kind: "limit", message: `${shown.length} of ${all.length} services are shown, the worst first; raise limit` });
    }
    const output: SummaryResult = {
      sinceMs: input.since,
      windowMs: facts.windowMs,
      totals: totalsOf(all.map(({ summary }) => summary)),
      ...(incidents && { incidents }),
      services,
    };
    return { output, completeness: completenessOf([...notes, ...baselineNotes(services)]) };
  },
});

/** The worst findings, always including a cause. */
function shortened(summary: ServiceSummary): ServiceSummary {
  const { findings } = summary;
  const shown = findings.slice(0, findingsShown.short);
  const isCause = ({ kind, severity }: ServiceSummary["findings"][number]): boolean => kind === "cause" && severity !== "info";
  const cause = shown.some(isCause) ? undefined : findings.find(isCause);
  return { ...summary, findings: cause === undefined ? shown : [...shown.slice(0, -1), cause] };
}

async function inFull(
  backend: ColonyBackend,
  { summary, facts, sinceMs }: { summary: ServiceSummary; facts: ServiceFacts; sinceMs: number },
  context: ToolCallContext,
): Promise<ServiceSummary> {
  const [read, hot] = await Promise.all([
    backend.serviceDetails({ service: facts.countedAs, source: summary.requests?.source ?? "hooks", sinceMs }, context),
    backend.hotFunctions({ service: facts.service, ...profileTimes(facts.nowMs, sinceMs), limit: 10 }, context),
  ]);
  const isSuffering = summary.findings.some(({ severity, kind }) => severity !== "info" && kind === "symptom");
  const described = describeService(facts, read, hot, summary.findings);
  const named = new Set(summary.findings.filter(({ rule }) => rule === "callee-failing").map(({ subject }) => subject));
  const byCallee = calleeFindings(described, isSuffering).filter(({ rule, subject }) => rule !== "callee-failing" || !named.has(subject));
  // A finding that names the callee replaces the general ones about calls.
  const rest = summary.findings.filter(({ rule }) => byCallee.length === 0 || (rule !== "calls-failing" && rule !== "calls-slower"));
  return { ...summary, findings: sortFindings([...rest, ...byCallee]).slice(0, findingsShown.full), details: described };
}

/** At least a few minutes, because samples arrive up to half a minute late. Compared with the hour before. */
function profileTimes(nowMs: number, sinceMs: number): Pick<HotFunctionsRequest, "now" | "before"> {
  const fromMs = nowMs - Math.max(sinceMs, leastProfileMs);
  return { now: { fromMs, untilMs: nowMs }, before: { fromMs: fromMs - hourMs, untilMs: fromMs } };
}

function totalsOf(summaries: readonly ServiceSummary[]): SummaryResult["totals"] {
  const of = (health: ServiceSummary["health"]): number => summaries.filter((summary) => summary.health === health).length;
  return { services: summaries.length, critical: of("critical"), degraded: of("degraded"), unknown: of("unknown"), ok: of("ok") };
}

function baselineNotes(services: readonly ServiceSummary[]): CompletenessNote[] {
  const observed = services.flatMap(({ requests }) => (requests === null ? [] : [requests]));
  if (observed.length === 0 || observed.some(({ before, yesterday }) => before !== null || yesterday !== null)) return [];
  return [{ kind: "no-data", message: "no earlier data to compare with yet: rules that need a baseline do not fire" }];
}
