import type { SummaryFacts } from "../../model/summary.ts";
import { hostNoise } from "./host-noise.ts";
import { type JudgedRoute, judgeRoute } from "./judge-route.ts";

const known = new WeakMap<SummaryFacts, ReadonlyMap<string, readonly JudgedRoute[]>>();

/** Each route against its baselines, under the name of the service that its process was found by. Facts are shared among tools: judged once. */
export function judgeRoutes(facts: SummaryFacts): ReadonlyMap<string, readonly JudgedRoute[]> {
  const judged = known.get(facts) ?? judgeAll(facts);
  known.set(facts, judged);
  return judged;
}

function judgeAll(facts: SummaryFacts): Map<string, JudgedRoute[]> {
  const noise = hostNoise(facts);
  const noiseOf = new Map<string, number>();
  for (const { service, agentId } of noise.size === 0 ? [] : facts.places)
    noiseOf.set(service, Math.max(noiseOf.get(service) ?? 0, noise.get(agentId) ?? 0));
  const byHooks = new Set(facts.routes.filter(({ source }) => source === "hooks").map(({ service, role }) => `${role} ${service}`));
  const judged = new Map<string, JudgedRoute[]>();
  for (const fact of facts.routes) {
    const service = fact.source === "spans" ? (facts.aliases.get(fact.service) ?? fact.service) : fact.service;
    if (fact.source === "spans" && byHooks.has(`${fact.role} ${service}`)) continue;
    const routes = judged.get(service) ?? [];
    judged.set(service, routes);
    routes.push(judgeRoute(fact, facts.nowMs, noiseOf.get(service) ?? 0));
  }
  return judged;
}
