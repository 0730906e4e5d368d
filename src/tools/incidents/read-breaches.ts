import type { Objective } from "../../model/incident.ts";
import type { SummaryEventFact } from "../../model/summary.ts";
import type { ColonyBackend } from "../contract/backend.ts";
import type { ToolCallContext } from "../contract/define-tool.ts";
import { activeAgents } from "../contract/match-agents.ts";
import type { SummaryHealth } from "../schemas/summary.ts";
import { summarizeServices } from "../summary/summarize-services.ts";
import { type Breach, findBreaches, isEntry } from "./find-breaches.ts";

const dayMs = 86_400_000;
/** The window of the health verdicts, whose cached facts are reused. */
const periodMs = 300_000;
const spanEdgesMs = 600_000;

export interface Breaches {
  nowMs: number;
  /** Breaches of learnt objectives by entry services, worst service first. */
  breaches: Breach[];
  health: ReadonlyMap<string, SummaryHealth>;
  /** Events of the last 15 minutes, newest first. */
  events: readonly SummaryEventFact[];
  /** Callees of each service with anything unusual. */
  calls: readonly { service: string; callee: string }[];
}

/** Uses the facts and rules of `coral query summary`. */
export async function readBreaches(
  backend: Pick<ColonyBackend, "agents" | "deployments" | "summary" | "spanEdges">,
  objectives: readonly Objective[],
  context: ToolCallContext,
): Promise<Breaches> {
  const [agents, facts, deployments] = await Promise.all([
    backend.agents(context),
    backend.summary({ sinceMs: periodMs }, context),
    backend.deployments({ sinceMs: dayMs, limit: 1_000 }, context),
  ]);
  const { nowMs } = facts;
  const all = summarizeServices({ facts, deployments, agents: activeAgents(agents), nowMs });
  const serving = new Set(
    all.filter((one) => one.facts.routes.some(({ fact }) => fact.role === "server")).map(({ summary }) => summary.service),
  );
  const breaches: Breach[] = [];
  for (const one of all) {
    const found = findBreaches(
      one,
      objectives.filter(({ service }) => service === one.summary.service),
      nowMs,
    );
    if (found.length === 0) continue;
    const bySpans = one.facts.routes.some(({ fact }) => fact.source === "spans");
    const edges = bySpans ? await backend.spanEdges({ sinceMs: spanEdgesMs, service: one.facts.countedAs, percentiles: 0 }, context) : null;
    const callers = (edges?.edges ?? []).filter(({ server }) => server === one.facts.countedAs).map(({ client }) => client);
    if (isEntry(one.facts, serving, callers)) breaches.push(...found);
  }
  return {
    nowMs,
    breaches,
    health: new Map(all.map(({ summary }) => [summary.service, summary.health])),
    events: facts.events,
    calls: facts.calls.filter(({ now, before }) => now.requests + before.requests > 0),
  };
}
