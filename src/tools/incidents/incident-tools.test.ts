import { describe, expect, it } from "vitest";
import { bucketOf, fineLayout, sparse } from "../../base/latency-histogram.ts";
import type { Incident, Objective, RequestTotals } from "../../model/incident.ts";
import type { RedFact } from "../../model/red.ts";
import { colonyOf, serviceOf } from "../sample-colony.fixture.ts";
import { redFact } from "../traffic/traffic-tools.fixture.ts";
import { affectedCallers } from "./affected-callers.ts";
import { declaredBreaches } from "./find-breaches.ts";
import { listIncidents } from "./list-incidents.ts";
import { listObjectives, setObjective } from "./slo-tools.ts";
import { verdictOf, verifyIncident } from "./verify-incident.ts";
import { whatIf } from "./what-if.ts";

const nowMs = Date.UTC(2026, 0, 5, 12);
const context = { signal: new AbortController().signal };
const tokensOf = (value: unknown): number => JSON.stringify(value).length / 4;

/** Requests with these shares of failures and of durations of 500 ms instead of 10. */
function servedOf(requests: number, failed: number, slow = 0) {
  const counts = new Array<number>(fineLayout.bucketCount).fill(0);
  counts[bucketOf(fineLayout, 10e6)] = requests * (1 - slow);
  counts[bucketOf(fineLayout, 500e6)] = requests * slow;
  return { requests, errors: requests * failed, durations: sparse(counts) };
}

const totalsOf = (range: number, served: ReturnType<typeof servedOf>): RequestTotals => ({
  ...{ range, service: "shop", protocol: "http", method: "GET", route: "/buy" },
  ...served,
});

const redFactOf = (service: string): RedFact =>
  redFact(service, { method: "POST", route: `/api/v2/${"orders/".repeat(20)}`, requests: 7_777 });

const longText = "a rather long statement about a route and its figures ".repeat(10);
const incidentOf = (number: number, changes: Partial<Incident> = {}): Incident => ({
  ...{ number, state: "open", severity: "critical", startedMs: nowMs - 600_000, openedMs: nowMs - 570_000, updatedMs: nowMs },
  ...{ endedMs: null, closedMs: null, diagnosedMs: nowMs, mergedInto: null },
  symptoms: Array.from({ length: 20 }, (_, index) => ({
    ...{ service: "shop", route: index === 0 ? "GET /buy" : `GET /${index}/${longText}`, measure: "errors" as const, isDeclared: false },
    ...{ usual: 0, limit: 0.05, worst: 0.5, now: 0.4, message: longText, startedMs: nowMs, lastBadMs: nowMs, okSinceMs: null },
  })).slice(0, changes.symptoms ? 0 : 20),
  cause: {
    ...{ service: "stock", kind: "slow", pointer: longText, confidence: 0.871, summary: longText, chain: ["shop", "stock"], change: null },
    evidence: Array.from({ length: 10 }, (_, index) => ({ id: `ev-0000000${index}`, statement: longText })),
  },
  ruledOut: Array.from({ length: 5 }, () => ({ service: "other", reason: longText })),
  next: Array.from({ length: 5 }, () => ({ command: "coral query red stock", why: "look at it" })),
  changes: Array.from({ length: 8 }, () => ({ atMs: nowMs, kind: "deployment", service: "stock", message: longText })),
  evidence: [],
  timeline: Array.from({ length: 60 }, (_, index) => ({ atMs: nowMs + index, kind: "symptom" as const, text: longText })),
  ...changes,
});

describe("coral_incidents", () => {
  const backend = colonyOf({
    nowMs: () => nowMs,
    incidents: async ({ limit }) => ({ incidents: Array.from({ length: limit }, (_, index) => incidentOf(index + 1)), open: 40 }),
    incident: async (number) => (number === 7 ? incidentOf(7) : undefined),
  });

  it("lists in at most 1,500 tokens, and notes that there are more", async () => {
    const answer = await listIncidents.call(backend, {}, context);
    expect(answer.incidents[0]).toMatchObject({ id: "inc-1", state: "open", durationMs: 600_000, service: "shop", confidence: 0.87 });
    expect(answer.completeness.notes).toMatchObject([{ kind: "limit" }]);
    expect(tokensOf(answer)).toBeLessThan(1_500);
  });

  it("shows one in at most 1,500 tokens", async () => {
    const answer = await listIncidents.call(backend, { id: "7" }, context);
    expect(answer.incident).toMatchObject({ id: "inc-7", causeService: "stock", chain: ["shop", "stock"] });
    expect(answer.incident?.next.at(-1)?.command).toBe("coral verify inc-7");
    expect(tokensOf(answer)).toBeLessThan(1_500);
  });

  it("fails for an unknown id", async () => {
    await expect(listIncidents.call(backend, { id: "inc-8" }, context)).rejects.toThrow('Cannot find incident "inc-8"');
    await expect(listIncidents.call(backend, { id: "seven" }, context)).rejects.toThrow("no incident has this id; see coral incidents");
  });
});

describe("coral_verify", () => {
  const compare = (during: number, after: number, requests = 500) =>
    verdictOf({
      measure: "errors",
      limit: 0.05,
      before: servedOf(1_000, 0),
      during: servedOf(1_000, during),
      after: servedOf(requests, after),
    });

  it.each([
    ["resolved", 0.4, 0.01, 500],
    ["improved", 0.4, 0.2, 500],
    ["unchanged", 0.4, 0.42, 500],
    ["worse", 0.4, 0.7, 500],
    ["too-early", 0.4, 0, 19],
  ] as const)("is %s when failures go from %f to %f over %i requests", (verdict, during, after, requests) => {
    expect(compare(during, after, requests)).toBe(verdict);
  });

  it("compares the time before, during and after, and answers too-early right after the fix", async () => {
    const symptoms = incidentOf(1).symptoms.slice(0, 1);
    const backend = colonyOf({
      nowMs: () => nowMs,
      incident: async () => incidentOf(1, { symptoms }),
      requestTotals: async () => [totalsOf(0, servedOf(1_000, 0)), totalsOf(1, servedOf(500, 0.4)), totalsOf(2, servedOf(100, 0))],
      diagnosisOnset: async () => ({ onsetMs: null, endMs: null, earlier: [], seenSinceMs: null }),
    });
    const answer = await verifyIncident.call(backend, { incident: "inc-1", fixed: "5m" }, context);
    expect(answer).toMatchObject({
      verdict: "resolved",
      symptoms: [{ before: { value: 0 }, during: { value: 0.4 }, after: { value: 0 } }],
    });
    expect(await verifyIncident.call(backend, { incident: "inc-1", fixed: "5s" }, context)).toMatchObject({ verdict: "too-early" });
  });
});

describe("answers of at most 1,500 tokens", () => {
  it("of coral_verify: the worst indicators of the largest possible incident", async () => {
    const backend = colonyOf({
      nowMs: () => nowMs,
      incident: async () => incidentOf(1),
      requestTotals: async () => [totalsOf(0, servedOf(1_000, 0)), totalsOf(1, servedOf(300, 1 / 3)), totalsOf(2, servedOf(100, 0))],
    });
    const answer = await verifyIncident.call(backend, { incident: "inc-1", fixed: "5m" }, context);
    expect(answer.symptoms).toHaveLength(8);
    // Nineteen routes had no requests, which outweighs the one that is resolved.
    expect(answer).toMatchObject({ verdict: "too-early", completeness: { notes: [{ kind: "limit" }] } });
    expect(tokensOf(answer)).toBeLessThan(1_500);
  });

  it("of coral_whatif: the nearest of many callers", async () => {
    const callers = Array.from({ length: 40 }, (_, index) => `checkout-service-number-${index}`);
    const backend = colonyOf({
      nowMs: () => nowMs,
      services: async () => ["postgres", ...callers].map((service, index) => serviceOf("web-1", service, 5_432 + index)),
      edgeRed: async ({ sinceMs }) => ({
        windowMs: sinceMs,
        edges: callers.map((caller, index) => ({
          ...{ client: { kind: "service", name: caller }, server: { kind: "service", name: "postgres" }, serverPort: 5_432 },
          ...{ protocol: "postgres", requests: 1_000 + index, errors: 0, p50Us: null, p95Us: null, p99Us: null },
        })),
      }),
      red: async ({ sinceMs }) => ({
        rows: callers.map((service) => redFactOf(service)),
        total: callers.length,
        windowMs: sinceMs,
        bucketMs: 0,
      }),
    });
    const answer = await whatIf.call(backend, { service: "postgres", event: "down" }, context);
    expect(answer.affected).toHaveLength(8);
    expect(answer.completeness.notes).toMatchObject([{ kind: "limit" }]);
    expect(tokensOf(answer)).toBeLessThan(1_500);
  });

  it("of coral_slo: the first of many objectives, and a note that there are more", async () => {
    const objective = { service: "checkout-service-of-the-northern-shops", route: "POST /api/v2/orders/{id}/items/{item}/prices" };
    const objectives = Array.from({ length: 60 }, () => ({
      ...objective,
      p95Us: 300_000,
      errorRatio: 0.001,
      setBy: "an-admin",
      setMs: nowMs,
    }));
    const answer = await listObjectives.call(colonyOf({ objectives: async () => objectives }), {}, context);
    expect(answer.objectives).toHaveLength(20);
    expect(answer.completeness.notes).toMatchObject([{ kind: "limit" }]);
    expect(tokensOf(answer)).toBeLessThan(1_500);
  });
});

describe("coral_whatif", () => {
  it("walks from callee to caller, with shares that multiply and never exceed all requests", () => {
    const calls = [
      { caller: "gateway", callee: "shop", requests: 100 },
      { caller: "shop", callee: "postgres", requests: 300 },
      { caller: "admin", callee: "postgres", requests: 5 },
      { caller: "postgres", callee: "shop", requests: 1 },
      { caller: "script", callee: "postgres", requests: 2 },
    ];
    const served = new Map([
      ["gateway", 400],
      ["shop", 200],
      ["admin", 10],
    ]);
    expect(affectedCallers("postgres", calls, served).map(({ service, distance, share }) => [service, distance, share])).toEqual([
      ["shop", 1, 1],
      ["admin", 1, 0.5],
      ["script", 1, null],
      ["gateway", 2, 0.25],
    ]);
  });
});

describe("declared objectives", () => {
  const objective: Objective = { service: "shop", route: "GET /buy", p95Us: 300_000, errorRatio: 0.01, setBy: "", setMs: 0 };
  const breaches = (served: ReturnType<typeof servedOf>) => declaredBreaches(objective, [[totalsOf(0, served)]], nowMs);

  it("are breached by more bad requests than they allow, beyond chance", () => {
    expect(breaches(servedOf(200, 0, 0.2))).toMatchObject([
      { measure: "latency", message: expect.stringContaining("the objective is 300 ms") as string },
    ]);
    expect(breaches(servedOf(200, 0.1))).toMatchObject([{ measure: "errors", isDeclared: true, limit: 0.01 }]);
    expect(breaches(servedOf(200, 0.3))).toMatchObject([{ severity: "critical" }]);
  });

  it("are not breached by few bad requests, by few requests, or by other routes", () => {
    expect(breaches(servedOf(200, 0.015, 0.06))).toEqual([]);
    expect(breaches(servedOf(15, 1))).toEqual([]);
    expect(declaredBreaches({ ...objective, route: "GET /cart" }, [[totalsOf(0, servedOf(200, 1))]], nowMs)).toEqual([]);
  });

  it("accept p95, errors or both", async () => {
    const backend = colonyOf({ setObjective: async (request) => ({ ...request, setBy: "me", setMs: nowMs }) });
    const input = { service: "shop", p95: "300ms", errors: "0.5%" };
    expect(await setObjective.call(backend, input, context)).toMatchObject({ p95Us: 300_000, errorRatio: 0.005, route: "" });
    await expect(setObjective.call(backend, { service: "shop" }, context)).rejects.toThrow("give p95, errors or both");
    await expect(setObjective.call(backend, { service: "shop", errors: "1" }, context)).rejects.toThrow("write a percentage");
  });
});
