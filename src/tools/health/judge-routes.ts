import type { SummaryFacts } from "../../model/summary.ts";
import { type HostNoise, hostNoise, quiet } from "./host-noise.ts";
import { type JudgedRoute, judgeRoute } from "./judge-route.ts";

const known = new WeakMap<SummaryFacts, ReadonlyMap<string, readonly JudgedRoute[]>>();

/** Judges each route under the name that its process was discovered by. Cached per facts object, which tools share. */
export function judgeRoutes(facts: SummaryFacts): ReadonlyMap<string, readonly JudgedRoute[]> {
  const judged = known.get(facts) ?? judgeAll(facts);
  known.set(facts, judged);
  return judged;
}

function judgeAll(facts: SummaryFacts): Map<string, JudgedRoute[]> {
  const noise = hostNoise(facts);
  const noiseOf = new Map<string, HostNoise>();
  for (const { service, agentId } of noise.size === 0 ? [] : facts.places) {
    const [known, here] = [noiseOf.get(service) ?? quiet, noise.get(agentId) ?? quiet];
    noiseOf.set(service, { addedUs: Math.max(known.addedUs, here.addedUs), times: Math.max(known.times, here.times) });
  }
  const byHooks = new Set(facts.routes.filter(({ source }) => source === "hooks").map(({ service, role }) => `${role} ${service}`));
  const judged = new Map<string, JudgedRoute[]>();
  for (const fact of facts.routes) {
    const service = fact.source === "spans" ? (facts.aliases.get(fact.service) ?? fact.service) : fact.service;
    if (fact.source === "spans" && byHooks.has(`${fact.role} ${service}`)) continue;
    const routes = judged.get(service) ?? [];
    judged.set(service, routes);
    routes.push(judgeRoute(fact, facts.nowMs, noiseOf.get(service)));
  }
  return judged;
}
