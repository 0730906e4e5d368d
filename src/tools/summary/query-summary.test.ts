import { describe, expect, it } from "vitest";
import type { Incident } from "../../model/incident.ts";
import type { HotFunction, HotFunctions } from "../../model/profiles.ts";
import type {
  ServiceDetailsFacts,
  SummaryCallFact,
  SummaryFacts,
  SummaryHostFact,
  SummaryPlaceFact,
  SummaryRequestsFact,
  SummaryRouteHealthFact,
} from "../../model/summary.ts";
import { colonyTools } from "../colony-tools.ts";
import type { ColonyBackend } from "../contract/backend.ts";
import { findTool } from "../contract/tool-list.ts";
import { deploymentOf } from "../deployments/deployment.fixture.ts";
import { baselineOf, type MadeWindow, routeOf, steadily } from "../health/route-health.fixture.ts";
import { agentOf, colonyOf, context, serviceOf } from "../sample-colony.fixture.ts";
import type { Answer } from "../schemas/completeness.ts";
import type { Deployment } from "../schemas/deployment.ts";
import type { SummaryResult } from "../schemas/summary.ts";
import type { RedResult } from "../schemas/traffic.ts";
import { redFact } from "../traffic/traffic-tools.fixture.ts";

const nowMs = Date.UTC(2026, 0, 2);
const minuteMs = 60_000;

function requestsOf(service: string, period: SummaryRequestsFact["period"], more: Partial<SummaryRequestsFact> = {}): SummaryRequestsFact {
  const coveredMs = period === "now" ? 5 * minuteMs : 60 * minuteMs;
  const requests = (coveredMs / 1_000) * 10;
  const base = { source: "hooks", period, service, role: "server", requests, errors: 0, coveredMs, queueMeanUs: null } as const;
  return { ...base, meanUs: 12_000, p50Us: 10_000, p95Us: 50_000, p99Us: 90_000, ...more };
}

/** A healthy service: the same now, an hour ago and yesterday. */
const calm = (service: string, now: Partial<SummaryRequestsFact> = {}): SummaryRequestsFact[] => [
  requestsOf(service, "now", now),
  requestsOf(service, "before"),
  requestsOf(service, "yesterday"),
];

const placeOf = (service: string, more: Partial<SummaryPlaceFact> = {}): SummaryPlaceFact => ({
  service,
  agentId: "web-1",
  instances: 2,
  isPresent: true,
  isStale: false,
  isListening: true,
  isReplaced: false,
  seenMs: 3_600_000,
  health: null,
  healthDetail: null,
  ...more,
});

const emptyFacts: SummaryFacts = {
  nowMs,
  windowMs: 5 * minuteMs,
  requests: [],
  routes: [],
  calls: [],
  places: [],
  hosts: [],
  cgroups: [],
  patterns: [],
  events: [],
  logServices: [],
  aliases: new Map(),
};

interface Given {
  facts?: Partial<SummaryFacts>;
  deployments?: Deployment[];
  details?: Partial<ServiceDetailsFacts>;
  colony?: Partial<ColonyBackend>;
}

async function ask(
  input: Record<string, unknown>,
  { facts = {}, deployments = [], details = {}, colony = {} }: Given,
): Promise<Answer<SummaryResult>> {
  const backend = colonyOf({
    agents: async () => [agentOf("web-1"), agentOf("web-2")],
    services: async () => [serviceOf("web-1", "api", 80), serviceOf("web-1", "shop", 81)],
    summary: async () => ({ ...emptyFacts, ...facts }),
    deployments: async () => deployments,
    serviceDetails: async () => ({
      routes: [],
      peers: [],
      course: { startMs: 0, stepMs: minuteMs, requests: [], errors: [], p95Us: [] },
      load: [],
      ...details,
    }),
    ...colony,
  });
  return (await findTool(colonyTools, "coral_query_summary", "read").call(backend, input, context)) as Answer<SummaryResult>;
}

/** Rules that fired for `api`, as `severity rule`. */
async function rules(given: Given): Promise<string[]> {
  const { services } = await ask({}, { ...given, facts: { hosts: [hostOf()], ...given.facts } });
  return services.find(({ service }) => service === "api")?.findings.map(({ severity, rule }) => `${severity} ${rule}`) ?? [];
}

const withRoutes = (...routes: SummaryRouteHealthFact[]): Given => ({
  facts: { requests: calm("api"), routes, places: [placeOf("api")] },
});
const withWindows = (windows: MadeWindow[], more: Partial<SummaryRouteHealthFact> = {}): Given => withRoutes(routeOf("api", windows, more));

const callOf = (service: string, callee: string, now: Partial<SummaryCallFact["now"]> = {}): SummaryCallFact => ({
  service,
  callee,
  now: { requests: 600, errors: 0, durationUs: 600 * 10_000, ...now },
  before: { requests: 18_000, errors: 0, durationUs: 18_000 * 10_000 },
});

const hostOf = (more: Partial<SummaryHostFact> = {}): SummaryHostFact => ({
  agentId: "web-1",
  cpuBusyRatio: 0.2,
  cpuStealRatio: 0,
  memUsedRatio: 0.5,
  psiCpuRatio: 0,
  psiMemoryRatio: 0,
  psiIoRatio: null,
  oomKills: 0,
  usual: { cpuBusyRatio: 0.2, psiCpuRatio: 0, psiMemoryRatio: 0, psiIoRatio: null },
  ...more,
});

const recently = new Date(nowMs - 20_000).toISOString();
const patternOf = (template: string) => ({
  service: "api",
  pattern: template,
  template,
  severity: "error",
  isNew: false,
  records: 40,
  recordsBefore: 0,
  coveredBeforeMs: 3_600_000,
  firstAt: null,
  lastAt: recently,
});

const exitOf = (service: string) => ({
  at: "",
  kind: "service-exited",
  severity: "error",
  service,
  agentId: "web-1",
  message: `${service} exited`,
});

describe("coral_query_summary", () => {
  it("mentions open incidents: the worst one, or those that involve the selected service", async () => {
    const symptom = { service: "api", measure: "errors", now: 0.34 };
    const times = { startedMs: nowMs - minuteMs, endedMs: null };
    const open = [
      { number: 9, severity: "critical", ...times, endedMs: nowMs, symptoms: [symptom], cause: null },
      { number: 8, severity: "warning", ...times, symptoms: [symptom], cause: null },
      { number: 7, severity: "critical", ...times, symptoms: [symptom], cause: { service: "db", chain: ["api", "db"] } },
    ] as unknown as Incident[];
    const colony: Partial<ColonyBackend> = { incidents: async () => ({ incidents: open, open: 3 }) };
    const since = new Date(nowMs - minuteMs).toISOString();
    const worst = { id: "inc-7", severity: "critical", since, endedAt: null, service: "api", measure: "errors", now: 0.34 };
    expect((await ask({}, { colony })).incidents).toEqual({ open: 3, worst });
    expect((await ask({ service: "api" }, { colony })).incidents).toEqual({ open: 3, worst });
    expect(await ask({ service: "shop" }, { colony })).not.toHaveProperty("incidents");
    expect(await ask({}, {})).not.toHaveProperty("incidents");
  });

  it("finds nothing wrong when nothing changed", async () => {
    const { services, totals } = await ask({}, withWindows(steadily({})));
    expect(totals).toEqual({ services: 1, critical: 0, degraded: 0, unknown: 0, ok: 1 });
    expect(services).toMatchObject([
      {
        service: "api",
        health: "ok",
        findings: [],
        instances: 2,
        hosts: 1,
        requests: { source: "hooks", role: "server", perSecond: 10, before: { perSecond: 10, p95Us: 50_000 } },
      },
    ]);
  });

  it.each<[string, Given, string[]]>([
    ["one route fails", withRoutes(routeOf("api"), routeOf("api", steadily({ errors: 100 }), { route: "/b" })), ["critical errors"]],
    ["a twentieth of one route fails", withWindows(steadily({ errors: 8 })), ["warning errors"]],
    ["six times as slow", withWindows(steadily({ p95Us: 300_000 })), ["critical latency"]],
    ["three times as slow", withWindows(steadily({ p95Us: 150_000 })), ["warning latency"]],
    [
      "slower than an hour ago, as slow as yesterday",
      withWindows(steadily({ p95Us: 150_000 }), { yesterday: baselineOf({ p95Us: 140_000 }) }),
      ["info latency-as-usual"],
    ],
    ["requests wait", withWindows(steadily({ p50Us: 40_000, queueUs: 30_000 })), ["warning queueing"]],
    ["a fifth of the requests arrives", withWindows([], { requests: 600 }), ["info rate-drop"]],
    ["nothing arrives on a steady schedule", withWindows([]), ["warning no-requests"]],
    ["nothing arrives, and nothing was promised", withWindows([], { yesterday: null }), []],
    ["nothing arrives after bursts", withWindows([], { before: baselineOf({ minRequests: 0 }) }), []],
    [
      "nothing arrives since its callers ended",
      {
        facts: {
          ...withWindows([]).facts,
          places: [placeOf("api"), placeOf("client", { isPresent: false })],
          calls: [callOf("client", "api", { requests: 0 })],
        },
      },
      [],
    ],
    [
      "nothing arrives, but callers still try",
      {
        facts: {
          ...withWindows([], { yesterday: null }).facts,
          places: [placeOf("api"), placeOf("client")],
          calls: [callOf("client", "api", { requests: 40, errors: 40 })],
        },
      },
      ["critical no-requests"],
    ],
  ])("judges requests: %s", async (_what, given, wanted) => expect(await rules(given)).toEqual(wanted));

  it("names the worst route, with what it was", async () => {
    const given = withRoutes(
      routeOf("api"),
      routeOf("api", steadily({ requests: 21, errors: 21 }), { route: "/checkout", before: baselineOf({ errors: 72, errorRatio: 0.002 }) }),
      routeOf("api", steadily({ errors: 40 }), { route: "/b" }),
    );
    const { services } = await ask({}, given);
    expect(services[0]?.findings.map(({ subject, message }) => [subject, message])).toEqual([
      ["GET /checkout", "GET /checkout fails 100% of 42 requests, was 0.20%"],
      ["GET /b", "GET /b fails 40% of 200 requests, was 0%"],
    ]);
    const slow = await ask({}, withWindows(steadily({ p95Us: 300_000 })));
    expect(slow.services[0]?.findings[0]?.message).toMatch(
      /^GET \/a p95 is 294 ms, 5\.9 times the 50\.0 ms of the hour before and 5\.9 times the 50\.0 ms of yesterday at this time$/,
    );
  });

  it("shows the cause among the worst findings, however many routes are affected", async () => {
    const slow = ["/a", "/b", "/c"].map((route) => routeOf("api", steadily({ p95Us: 150_000 }), { route }));
    const cgroup = {
      agentId: "web-1",
      cgroup: "/api",
      services: ["api"],
      cpuCores: 0.5,
      cpuLimitCores: 0.5,
      throttledRatio: 0.4,
      memUsedBytes: 1,
      memLimitBytes: null,
      oomKills: 0,
    };
    const { services } = await ask({}, { facts: { ...withRoutes(...slow).facts, cgroups: [cgroup] } });
    expect(services[0]?.findings.map(({ rule }) => rule)).toEqual(["latency", "latency", "throttled"]);
  });

  it("gives the same verdicts as coral_query_red", async () => {
    const facts = { ...emptyFacts, ...withWindows(steadily({ errors: 100 })).facts };
    const row = { service: "api", role: "server" as const, protocol: "http", method: "GET", route: "/a", requests: 8_162, errors: 269 };
    const backend = colonyOf({
      agents: async () => [agentOf("web-1")],
      summary: async () => facts,
      red: async () => ({ rows: [redFact("api", row)], total: 1, windowMs: 300_000, bucketMs: 0 }),
    });
    const red = (await findTool(colonyTools, "coral_query_red", "read").call(backend, {}, context)) as Answer<RedResult>;
    expect(red.findings.map(({ severity, rule, subject, message }) => [severity, rule, subject, message])).toEqual([
      ["critical", "error-share", "GET /a", "api GET /a fails 100% of 200 requests, was 0%"],
    ]);
  });

  it.each<[string, Given, string[]]>([
    [
      "a failing check",
      { facts: { places: [placeOf("api", { health: "unhealthy", healthDetail: "status 503" })] } },
      ["critical unhealthy"],
    ],
    [
      "no process left of what had requests",
      {
        facts: { routes: [routeOf("api", steadily({}))], places: [placeOf("api", { isPresent: false })], events: [exitOf("api")] },
      },
      ["critical down"],
    ],
    [
      "no process left of what listened",
      { facts: { places: [placeOf("api", { isPresent: false })], events: [exitOf("api")] } },
      ["warning down"],
    ],
    [
      "no process left of what was there for a moment",
      {
        facts: {
          routes: [routeOf("api", steadily({}), { before: null })],
          places: [placeOf("api", { isPresent: false, seenMs: 90_000 })],
          events: [exitOf("api")],
        },
      },
      ["info down"],
    ],
    [
      "no process left of what is young, had requests for minutes",
      {
        facts: {
          routes: [routeOf("api", steadily({}), { before: baselineOf({ isSettled: false, windows: 5 }) })],
          places: [placeOf("api", { isPresent: false, seenMs: 400_000 })],
          events: [exitOf("api")],
        },
      },
      ["critical down"],
    ],
    [
      "no process left of what failing callers need",
      {
        facts: {
          routes: [routeOf("web", steadily({ errors: 100 }))],
          places: [placeOf("web"), placeOf("api", { isPresent: false, seenMs: 90_000 })],
          events: [exitOf("api")],
          calls: [callOf("web", "api", { requests: 0 })],
        },
      },
      ["critical down"],
    ],
    [
      "a task that is done",
      { facts: { places: [placeOf("api", { isPresent: false, isListening: false })], events: [exitOf("api")] } },
      ["info down"],
    ],
    [
      "another service on its port",
      {
        facts: {
          routes: [routeOf("api", steadily({}))],
          places: [placeOf("api", { isPresent: false, isReplaced: true })],
          events: [exitOf("api")],
        },
      },
      ["info down"],
    ],
    [
      "callers that went over to another service",
      {
        facts: {
          routes: [routeOf("api", steadily({}))],
          places: [placeOf("api", { isPresent: false }), placeOf("green"), placeOf("web")],
          events: [exitOf("api")],
          calls: [callOf("web", "api", { requests: 0 }), { ...callOf("web", "green"), before: { requests: 0, errors: 0, durationUs: 0 } }],
        },
      },
      ["info down"],
    ],
    [
      "a crash loop",
      {
        facts: {
          places: [placeOf("api")],
          events: Array.from({ length: 6 }, (_, index) => ({
            at: new Date(nowMs - 20_000 - index * 60_000).toISOString(),
            kind: "service-restarted",
            severity: "warning",
            service: "api",
            agentId: null,
            message: "",
          })),
        },
      },
      ["critical restarts"],
    ],
    [
      "a control group at its limits",
      {
        facts: {
          places: [placeOf("api")],
          cgroups: [
            {
              agentId: "web-1",
              cgroup: "/api",
              services: ["api"],
              cpuCores: 1,
              cpuLimitCores: 1,
              throttledRatio: 0.6,
              memUsedBytes: 98,
              memLimitBytes: 100,
              oomKills: 1,
            },
          ],
        },
      },
      ["critical oom-kill", "critical throttled", "warning memory-limit"],
    ],
    [
      "new errors in the log",
      {
        facts: {
          places: [placeOf("api")],
          patterns: [
            {
              service: "api",
              pattern: "p1",
              template: "boom <num>",
              severity: "error",
              isNew: true,
              records: 40,
              recordsBefore: 0,
              coveredBeforeMs: 3_600_000,
              firstAt: null,
              lastAt: recently,
            },
          ],
        },
      },
      ["warning new-errors"],
    ],
    [
      "errors of a service that is new itself",
      {
        facts: {
          places: [placeOf("api")],
          patterns: [
            { ...patternOf("boom"), isNew: true, coveredBeforeMs: 60_000 },
            { ...patternOf("bang"), coveredBeforeMs: 60_000 },
          ],
        },
      },
      ["info new-errors"],
    ],
    [
      "many records of a service that did not exist before",
      { facts: { places: [placeOf("api")], patterns: [{ ...patternOf("boom"), coveredBeforeMs: 0 }] } },
      [],
    ],
    [
      "errors in the log that have ended",
      { facts: { places: [placeOf("api")], patterns: [{ ...patternOf("boom"), lastAt: new Date(nowMs - 150_000).toISOString() }] } },
      [],
    ],
    [
      "many more errors in the log",
      {
        facts: {
          places: [placeOf("api")],
          patterns: [
            {
              service: "api",
              pattern: "p1",
              template: "boom",
              severity: "error",
              isNew: false,
              records: 40,
              recordsBefore: 60,
              coveredBeforeMs: 3_600_000,
              firstAt: null,
              lastAt: recently,
            },
          ],
        },
      },
      ["warning error-records"],
    ],
    [
      "a build that is worse",
      {
        facts: { places: [placeOf("api")] },
        deployments: [deploymentOf({ verdict: "regression", isComplete: false, reason: "GET / p95 2 ms → 4 ms" })],
      },
      ["warning deployment-regression"],
    ],
    [
      "a build that was worse, and nothing suffers any more",
      { facts: { places: [placeOf("api")] }, deployments: [deploymentOf({ verdict: "regression", reason: "GET / p95 2 ms → 4 ms" })] },
      ["info deployment-regression"],
    ],
    ["a build that has just come", { facts: { places: [placeOf("api")] }, deployments: [deploymentOf()] }, ["info deployed"]],
  ])("judges processes, limits, logs and deployments: %s", async (_what, given, wanted) => expect(await rules(given)).toEqual(wanted));

  it("blames a saturated host only for slowness without another cause, and only when it is busier than usual", async () => {
    const full = hostOf({ cpuBusyRatio: 0.98, psiCpuRatio: 0.6 });
    const slow = withWindows(steadily({ p50Us: 90_000, p95Us: 150_000 })).facts;
    const of = async (facts: Partial<SummaryFacts>): Promise<string[]> =>
      (await rules({ facts })).map((rule) => rule.replace("warning ", ""));
    expect(await of({ ...slow, hosts: [full] })).toEqual(["latency", "host-cpu-pressure", "host-cpu"]);
    expect(await of({ ...withWindows([], { requests: 3_000 }).facts, hosts: [full] })).toEqual([]);
    const always = { cpuBusyRatio: 0.97, psiCpuRatio: 0.6, psiMemoryRatio: 0, psiIoRatio: null };
    expect(await of({ ...slow, hosts: [hostOf({ cpuBusyRatio: 0.9, psiCpuRatio: 0.6, usual: always })] })).toEqual(["latency"]);
    const passedOn = { ...slow, hosts: [full], calls: [callOf("api", "db", { durationUs: 600 * 150_000 })] };
    expect(await of(passedOn)).toEqual(["latency"]);
  });

  it("tolerates the slowdown that a busy host adds to all of its services", async () => {
    const fast = baselineOf({ p50Us: 800, p95Us: 1_500, p95HighUs: 1_800 });
    const routes = ["api", "b", "c", "d", "e"].map((service) =>
      routeOf(service, steadily({ p50Us: 2_000, p95Us: 12_000 }), { before: fast, yesterday: fast, p95Us: 9_000 }),
    );
    const places = routes.map(({ service }) => placeOf(service));
    expect(await rules({ facts: { routes, places, hosts: [hostOf({ cpuBusyRatio: 0.95 })] } })).toEqual([]);
    expect(await rules({ facts: { routes, places, hosts: [hostOf()] } })).toEqual(["warning latency"]);
  });

  it("shows the worst first, counts all, and truncates", async () => {
    const requests = ["fine", "failing", "slow", "busy"].flatMap((service) => calm(service));
    const routes = [routeOf("failing", steadily({ errors: 90 })), routeOf("slow", steadily({ p95Us: 150_000 }))];
    const answer = await ask({ limit: 3 }, { facts: { requests, routes, places: [placeOf("silent", { agentId: "gone" })] } });
    expect(answer.services.map(({ service, health }) => `${service} ${health}`)).toEqual([
      "failing critical",
      "slow degraded",
      "silent unknown",
    ]);
    expect(answer.totals).toEqual({ services: 5, critical: 1, degraded: 1, unknown: 1, ok: 2 });
    expect(answer.completeness.notes[0]).toMatchObject({
      kind: "limit",
      message: "3 of 5 services are shown, the worst first; raise limit",
    });
    expect(answer.services.every(({ details }) => details === undefined)).toBe(true);
  });

  it("ranks a cause before everything it affects, however few of its requests fail", async () => {
    const failing = (service: string, errors: number, more = {}) => routeOf(service, steadily({ requests: 1_000, errors }), more);
    const routes = [
      failing("front", 400),
      failing("front", 40, { role: "client", route: "/pay" }),
      failing("middle", 300),
      failing("middle", 30, { role: "client", route: "/charge" }),
      failing("origin", 80),
    ];
    const calls = [
      callOf("front", "middle", { requests: 6_000, errors: 2_300 }),
      callOf("middle", "origin", { requests: 6_000, errors: 1_700 }),
    ];
    const { services } = await ask({}, { facts: { routes, calls, requests: ["front", "middle", "origin"].flatMap((one) => calm(one)) } });
    expect(services.map(({ service, health }) => `${service} ${health}`)).toEqual(["origin degraded", "middle critical", "front critical"]);
    expect(services[1]?.findings.map(({ rule, subject }) => `${rule} ${subject}`)).toContain("callee-failing origin");
  });

  it("ranks a service that is gone before the services that called it", async () => {
    const facts = {
      requests: calm("web"),
      routes: [routeOf("web", steadily({ errors: 100 })), routeOf("db", [{}])],
      places: [placeOf("web"), placeOf("db", { isPresent: false })],
      events: [exitOf("db")],
      calls: [callOf("web", "db", { requests: 0 })],
    };
    const { services } = await ask({}, { facts });
    expect(services.map(({ service, health }) => `${service} ${health}`)).toEqual(["db critical", "web critical"]);
  });

  it("reports unknown with the reason when nothing could be observed", async () => {
    const blind = agentOf("web-1", { capabilities: [{ name: "traffic", available: false, reason: "needs CAP_BPF; run it as root" }] });
    const health = async (agent: typeof blind, facts: Partial<SummaryFacts>) =>
      (await ask({}, { facts, colony: { agents: async () => [agent] } })).services.map(
        (one) => `${one.health} ${one.findings[0]?.message ?? ""}`,
      );
    const sampled = { places: [placeOf("api")], hosts: [hostOf()] };
    expect(await health(blind, sampled)).toEqual([
      "unknown no data: the agent on web-1.example.org sees no requests (needs CAP_BPF; run it as root); fix that, or add a health check with coral connect",
    ]);
    expect(await health(agentOf("web-1"), sampled)).toEqual(["ok "]);
    expect(await health(agentOf("web-1"), { places: [placeOf("api")] })).toEqual([
      expect.stringContaining("unknown no data: host web-1.example.org sends no samples"),
    ]);
    expect(await health(agentOf("web-1", { health: "unhealthy" }), sampled)).toEqual([
      expect.stringContaining("unknown no data: the agent on web-1.example.org is not connected"),
    ]);
    const port = "port:web-1/2024";
    expect(await health(agentOf("web-1"), { ...sampled, places: [placeOf(port)] })).toEqual([
      expect.stringContaining("unknown no data: the agent on web-1.example.org cannot see the process behind this port"),
    ]);
    expect(await health(agentOf("web-1"), { ...sampled, places: [placeOf(port, { health: "healthy" })] })).toEqual(["ok "]);
    expect(await health(blind, { ...sampled, places: [placeOf("api", { health: "healthy" })] })).toEqual(["ok "]);
    // Its last requests are too old to judge.
    const ended = { places: [placeOf("api", { isPresent: false, isReplaced: true })], events: [exitOf("api")] };
    expect(await health(agentOf("web-1"), { ...sampled, ...ended, requests: calm("api"), routes: [routeOf("api")] })).toEqual([
      "unknown not running: api exited",
    ]);
    expect(await health(blind, { ...sampled, requests: calm("api") })).toEqual(["ok "]);
  });

  it("counts a request that hooks and spans saw once, under the name of the process", async () => {
    const bySpans = calm("checkout-service", { source: "spans" }).map((row) => ({ ...row, source: "spans" as const }));
    const only = calm("lambda").map((row) => ({ ...row, source: "spans" as const }));
    const { services } = await ask(
      {},
      { facts: { requests: [...calm("api"), ...bySpans, ...only], aliases: new Map([["checkout-service", "api"]]) } },
    );
    expect(services.map(({ service, requests }) => `${service} ${requests?.source} ${requests?.perSecond}`).sort()).toEqual([
      "api hooks 10",
      "lambda spans 10",
    ]);
  });

  it("shows one service in full: onset, routes, changed peers, hosts", async () => {
    const startMs = nowMs - 65 * minuteMs;
    const course = {
      startMs,
      stepMs: minuteMs,
      requests: new Array<number>(65).fill(600),
      errors: new Array<number>(65).fill(0),
      p95Us: Array.from({ length: 65 }, (_, index) => (index >= 53 ? 300_000 : 50_000)),
    };
    const amounts = {
      requests: 3_000,
      errors: 0,
      meanUs: 1,
      queueMeanUs: null,
      p50Us: 1,
      p95Us: 50_000,
      p99Us: 1,
      coveredMs: 5 * minuteMs,
    };
    const peer = (name: string, role: "server" | "client", period: "now" | "before", more = {}) => ({
      ...amounts,
      peer: name,
      role,
      period,
      ...more,
    });
    const { services } = await ask(
      { service: "API" },
      {
        facts: {
          requests: calm("api", { p95Us: 300_000 }),
          routes: [routeOf("api", steadily({ p95Us: 300_000 }))],
          places: [placeOf("api")],
        },
        deployments: [deploymentOf({ at: new Date(nowMs - 13 * minuteMs).toISOString() })],
        details: {
          course,
          routes: [
            { ...amounts, role: "server", method: "GET", route: "/a", period: "now", p95Us: 300_000 },
            { ...amounts, role: "server", method: "GET", route: "/a", period: "before" },
            { ...amounts, role: "client", method: "", route: "SELECT 1", period: "now" },
          ],
          peers: [
            peer("web", "server", "now"),
            peer("web", "server", "before"),
            peer("db", "client", "now", { p95Us: 290_000 }),
            peer("db", "client", "before"),
            peer("cache", "client", "now", { errors: 900 }),
            peer("cache", "client", "before"),
            peer("old", "client", "before"),
            peer("s3", "client", "now"),
          ],
          load: [{ period: "now", cpuCores: 0.5, rssBytes: 1_000 }],
        },
      },
    );
    const [api] = services;
    expect(api?.details?.onsetAt).toBe(new Date(startMs + 53 * minuteMs).toISOString());
    expect(api?.details?.routes).toMatchObject([{ route: "GET /a", p95Us: 300_000, before: { p95Us: 50_000 } }]);
    expect(api?.details?.callers).toMatchObject([{ peer: "web", change: "" }]);
    expect(api?.details?.callees.map(({ peer: name, change }) => `${name} ${change}`).sort()).toEqual([
      "cache failing",
      "db slower",
      "old gone",
      "s3 new",
    ]);
    expect(api?.findings.map(({ rule, subject }) => `${rule} ${subject}`.trim())).toEqual(
      expect.arrayContaining(["latency GET /a", "callee-slower db", "callee-failing cache", "deployed dep-1"]),
    );
    expect(api?.details?.load).toEqual({ cpuCores: 0.5, rssBytes: 1_000, before: null });
  });

  it("lists functions whose CPU time grew before those with the most CPU time", async () => {
    const both = (now: number, before: number) => ({ now, before });
    const hot = (name: string, now: number, before: number, isSignificant = false): HotFunction => ({
      ...{ name, file: "api", kind: "native", self: both(now, before), total: both(now, before), cores: both(now, before) },
      ...{ deviations: 0, isSignificant },
    });
    const details = async (samples: { now: number; before: number }) => {
      const hottest = [hot("render", 0.6, 0.7), hot("hash", 0.3, 0.1, true)];
      const hotFunctions = async (): Promise<HotFunctions> => ({ samples, cores: both(1, 1), hottest, grown: hottest.slice(1) });
      const { services } = await ask({ service: "api" }, { facts: { requests: calm("api") }, colony: { hotFunctions } });
      return services[0]?.details?.hotFunctions;
    };
    expect(await details(both(500, 500))).toEqual([
      { name: "hash", file: "api", self: 0.3, total: 0.3, totalBefore: 0.1, grew: true },
      { name: "render", file: "api", self: 0.6, total: 0.6, totalBefore: 0.7, grew: false },
    ]);
    expect(await details(both(500, 0))).toMatchObject([{ totalBefore: null }, { totalBefore: null }]);
    // Too few for shares.
    expect(await details(both(10, 500))).toEqual([]);
  });

  it("notes missing baselines, and fails for an unknown service", async () => {
    const young = await ask({}, { facts: { requests: [requestsOf("api", "now")] } });
    expect(young.completeness.notes.map(({ message }) => message)).toContain(
      "no earlier data to compare with yet: rules that need a baseline do not fire",
    );
    await expect(ask({ service: "nobody" }, { colony: { spanServices: async () => ["lambda"] } })).rejects.toThrow(
      'Cannot find service "nobody"',
    );
    const traced = await ask(
      { service: "lambda" },
      {
        facts: { requests: calm("lambda").map((row) => ({ ...row, source: "spans" as const })) },
        colony: { spanServices: async () => ["lambda"] },
      },
    );
    expect(traced.services).toMatchObject([{ service: "lambda", requests: { source: "spans" } }]);
  });

  it("shows a service that only has log records", async () => {
    const facts = { logServices: ["cron", "backup", "shop-web"], aliases: new Map([["shop-web", "shop"]]) };
    const loud = {
      service: "backup",
      pattern: "p",
      template: "disk full",
      severity: "error",
      isNew: true,
      records: 40,
      recordsBefore: 0,
      coveredBeforeMs: 3_600_000,
      firstAt: null,
      lastAt: recently,
    };
    const { services } = await ask({}, { facts: { ...facts, patterns: [loud] } });
    expect(services.map(({ service, health }) => `${service} ${health}`)).toEqual(["backup degraded", "cron ok", "shop ok"]);
    const one = await ask({ service: "CRON" }, { facts, colony: { logServices: async () => ["cron"] } });
    expect(one.services).toMatchObject([{ service: "cron", health: "ok", requests: null }]);
  });

  it("shows a named service without any data as unknown", async () => {
    expect((await ask({ service: "shop" }, {})).services).toMatchObject([
      { service: "shop", health: "unknown", findings: [{ rule: "unobserved", severity: "info" }] },
    ]);
  });

  it.each(["agent", "colony"] as const)("knows nothing of services whose newest rows are not stored at the %s", async (at) => {
    const facts = { routes: ["api", "shop"].map((service) => routeOf(service, steadily({}))), requests: [...calm("api"), ...calm("shop")] };
    const blocked = agentOf("web-1", { storeProblem: { at, reason: "no space left" } });
    const colony = {
      agents: async () => [blocked, agentOf("web-2")],
    };
    const places = [placeOf("api"), placeOf("shop"), placeOf("shop", { agentId: "web-2" })];
    const { services } = await ask({}, { facts: { ...facts, places }, colony });
    expect(services.map(({ service, health, findings }) => [service, health, findings[0]?.message])).toEqual([
      [
        "api",
        "unknown",
        at === "agent"
          ? "not known now: web-1.example.org cannot store rows: no space left"
          : "not known now: the colony cannot store rows: no space left",
      ],
      ["shop", "ok", undefined],
    ]);
  });

  it("gives the same answer to the same facts", async () => {
    const given = {
      facts: { routes: ["b", "a"].map((service) => routeOf(service, steadily({ errors: 90 }))), requests: [...calm("b"), ...calm("a")] },
    };
    expect(await ask({}, given)).toEqual(await ask({}, given));
  });
});
