import { describe, expect, it } from "vitest";
import type { ServiceDetailsFacts, SummaryFacts, SummaryPlaceFact, SummaryRequestsFact } from "../../model/summary.ts";
import { colonyTools } from "../colony-tools.ts";
import type { ColonyBackend } from "../contract/backend.ts";
import { findTool } from "../contract/tool-list.ts";
import { agentOf, colonyOf, context, serviceOf } from "../sample-colony.fixture.ts";
import type { Answer } from "../schemas/completeness.ts";
import type { Deployment, DeploymentList } from "../schemas/deployment.ts";
import type { SummaryResult } from "../schemas/summary.ts";

const nowMs = Date.UTC(2026, 0, 2);
const minuteMs = 60_000;

function requestsOf(service: string, period: SummaryRequestsFact["period"], more: Partial<SummaryRequestsFact> = {}): SummaryRequestsFact {
  const coveredMs = period === "now" ? 5 * minuteMs : 60 * minuteMs;
  const requests = (coveredMs / 1_000) * 10;
  const base = { source: "hooks", period, service, role: "server", requests, errors: 0, coveredMs, queueMeanUs: null } as const;
  return { ...base, meanUs: 12_000, p50Us: 10_000, p95Us: 50_000, p99Us: 90_000, ...more };
}

/** As it is when all is well: the same now, an hour ago and yesterday. */
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
  health: null,
  healthDetail: null,
  ...more,
});

const emptyFacts: SummaryFacts = {
  nowMs,
  windowMs: 5 * minuteMs,
  requests: [],
  places: [],
  hosts: [],
  cgroups: [],
  patterns: [],
  events: [],
  logServices: [],
  aliases: new Map(),
};

const deploymentOf = (more: Partial<Deployment> = {}): Deployment => ({
  id: "dep-1",
  service: "api",
  at: new Date(nowMs - 10 * minuteMs).toISOString(),
  foundBy: ["build"],
  build: "bbbbbbbbbbbbbbbb",
  previousBuild: "aaaaaaaaaaaaaaaa",
  version: null,
  previousVersion: null,
  note: "",
  markedBy: null,
  agents: ["web-1"],
  verdict: "no-change",
  reason: "",
  isComplete: true,
  report: null,
  ...more,
});

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
  const { services } = await ask({}, given);
  return services.find(({ service }) => service === "api")?.findings.map(({ severity, rule }) => `${severity} ${rule}`) ?? [];
}

const withRequests = (now: Partial<SummaryRequestsFact>): Given => ({ facts: { requests: calm("api", now), places: [placeOf("api")] } });

describe("coral_query_summary", () => {
  it("finds nothing wrong where all is as it was", async () => {
    const { services, totals } = await ask({}, withRequests({}));
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
    ["a quarter of the requests fails", withRequests({ errors: 900 }), ["critical errors"]],
    ["a twentieth fails", withRequests({ errors: 200 }), ["warning errors"]],
    ["few fail, but many more than usual", withRequests({ errors: 60 }), ["warning errors-rising"]],
    [
      "few fail, as few as usual",
      { facts: { requests: calm("api", { errors: 60 }).map((row) => ({ ...row, errors: row.requests / 50 })) } },
      [],
    ],
    ["six times as slow", withRequests({ p95Us: 300_000 }), ["critical latency"]],
    ["three times as slow", withRequests({ p95Us: 150_000 }), ["warning latency"]],
    ["slow in microseconds", { facts: { requests: calm("api").map((row) => ({ ...row, p95Us: row.period === "now" ? 900 : 100 })) } }, []],
    [
      "slower than an hour ago, as slow as yesterday",
      {
        facts: {
          requests: [
            requestsOf("api", "now", { p95Us: 150_000 }),
            requestsOf("api", "before"),
            requestsOf("api", "yesterday", { p95Us: 140_000 }),
          ],
        },
      },
      ["info latency-as-usual"],
    ],
    [
      "ten times as slow as yesterday since more than an hour",
      {
        facts: {
          requests: [
            requestsOf("api", "now", { p95Us: 500_000 }),
            requestsOf("api", "before", { p95Us: 500_000 }),
            requestsOf("api", "yesterday"),
          ],
        },
      },
      ["warning latency"],
    ],
    ["a fifth of the requests arrives", withRequests({ requests: 600 }), ["warning rate-drop"]],
    [
      "nothing arrives",
      { facts: { requests: [requestsOf("api", "before"), requestsOf("api", "yesterday")], places: [placeOf("api")] } },
      ["critical no-requests"],
    ],
    [
      "nothing arrives, as yesterday",
      { facts: { requests: [requestsOf("api", "before"), requestsOf("api", "yesterday", { requests: 3 })] } },
      [],
    ],
    ["requests wait", withRequests({ queueMeanUs: 9_000 }), ["warning queueing"]],
    ["too few to judge", withRequests({ requests: 10, errors: 9, p95Us: 900_000 }), ["warning rate-drop"]],
  ])("judges requests: %s", async (_what, given, wanted) => expect(await rules(given)).toEqual(wanted));

  it.each<[string, Given, string[]]>([
    [
      "a failing check",
      { facts: { places: [placeOf("api", { health: "unhealthy", healthDetail: "status 503" })] } },
      ["critical unhealthy"],
    ],
    [
      "no process left",
      {
        facts: {
          places: [placeOf("api", { isPresent: false })],
          events: [{ at: "", kind: "service-exited", severity: "error", service: "api", agentId: "web-1", message: "api exited" }],
        },
      },
      ["warning down"],
    ],
    [
      "a crash loop",
      {
        facts: {
          places: [placeOf("api")],
          events: Array.from({ length: 6 }, () => ({
            at: "",
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
              firstAt: null,
            },
          ],
        },
      },
      ["warning new-errors"],
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
              firstAt: null,
            },
          ],
        },
      },
      ["warning error-records"],
    ],
    [
      "a build that is worse",
      { facts: { places: [placeOf("api")] }, deployments: [deploymentOf({ verdict: "regression", reason: "GET / p95 2 ms → 4 ms" })] },
      ["warning deployment-regression"],
    ],
    ["a build that has just come", { facts: { places: [placeOf("api")] }, deployments: [deploymentOf()] }, ["info deployed"]],
  ])("judges what is around requests: %s", async (_what, given, wanted) => expect(await rules(given)).toEqual(wanted));

  it("takes a full host for a reason, not for an illness", async () => {
    const host = {
      agentId: "web-1",
      cpuBusyRatio: 0.98,
      cpuStealRatio: 0,
      memUsedRatio: 0.5,
      psiCpuRatio: 0.6,
      psiMemoryRatio: 0,
      psiIoRatio: null,
      oomKills: 0,
    };
    const well = await ask({}, { facts: { requests: calm("api"), places: [placeOf("api")], hosts: [host] } });
    expect(well.services[0]).toMatchObject({
      health: "ok",
      findings: [{ rule: "host-cpu-pressure", severity: "info" }, { rule: "host-cpu" }],
    });
    const ill = await ask({}, { facts: { requests: calm("api", { p95Us: 120_000 }), places: [placeOf("api")], hosts: [host] } });
    expect(ill.services[0]?.findings.map(({ severity, kind, rule }) => `${severity} ${kind} ${rule}`)).toEqual([
      "warning symptom latency",
      "warning cause host-cpu-pressure",
      "warning cause host-cpu",
    ]);
  });

  it("shows the worst first, counts them all, and cuts", async () => {
    const requests = [
      ...calm("fine"),
      ...calm("failing", { errors: 2_000 }),
      ...calm("slow", { p95Us: 150_000 }),
      ...calm("busy", { requests: 9_000 }),
    ];
    const answer = await ask({ limit: 3 }, { facts: { requests, places: [placeOf("silent", { agentId: "gone" })] } });
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

  it("shows a failing service before the one that calls it", async () => {
    const failing = { errors: 300 };
    const requests = [
      ...calm("front", failing),
      ...calm("front", failing).map((row) => ({ ...row, role: "client" as const })),
      ...calm("origin", failing),
    ];
    const { services } = await ask({}, { facts: { requests } });
    expect(services.map(({ service, findings }) => `${service} ${findings.map(({ rule }) => rule).join(" ")}`)).toEqual([
      "origin errors",
      "front errors calls-failing",
    ]);
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

  it("shows one in full: onset, routes, changed peers, hosts", async () => {
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
        facts: { requests: calm("api", { p95Us: 300_000 }), places: [placeOf("api")] },
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
      expect.arrayContaining(["latency", "callee-slower db", "callee-failing cache", "deployed dep-1"]),
    );
    expect(api?.details?.load).toEqual({ cpuCores: 0.5, rssBytes: 1_000, before: null });
  });

  it("notes missing baselines, and fails for an unknown service", async () => {
    const young = await ask({}, { facts: { requests: [requestsOf("api", "now")] } });
    expect(young.completeness.notes.map(({ message }) => message)).toContain(
      "there is no earlier data to compare with yet: rules that need a baseline do not fire",
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
      firstAt: null,
    };
    const { services } = await ask({}, { facts: { ...facts, patterns: [loud] } });
    expect(services.map(({ service, health }) => `${service} ${health}`)).toEqual(["backup degraded", "cron ok", "shop ok"]);
    const one = await ask({ service: "CRON" }, { facts, colony: { logServices: async () => ["cron"] } });
    expect(one.services).toMatchObject([{ service: "cron", health: "ok", requests: null }]);
  });

  it("shows a named service without any data as unknown", async () => {
    expect((await ask({ service: "shop" }, {})).services).toMatchObject([{ service: "shop", health: "unknown", findings: [] }]);
  });

  it("gives the same answer to the same facts", async () => {
    const given = { facts: { requests: [...calm("b", { errors: 300 }), ...calm("a", { errors: 300 })] } };
    expect(await ask({}, given)).toEqual(await ask({}, given));
  });
});

describe("coral_query_deployments", () => {
  it("cuts, and resolves a name written in another case", async () => {
    const asked: (string | undefined)[] = [];
    const backend = colonyOf({
      services: async () => [serviceOf("web-1", "api", 80)],
      deployments: async ({ service, limit }) => {
        asked.push(service);
        return service === "API" ? [] : Array.from({ length: limit }, (_, index) => deploymentOf({ id: `dep-${index}` }));
      },
    });
    const answer = (await findTool(colonyTools, "coral_query_deployments", "read").call(
      backend,
      { service: "API", limit: 2 },
      context,
    )) as Answer<DeploymentList>;
    expect(asked).toEqual(["API", "api"]);
    expect(answer.deployments).toHaveLength(2);
    expect(answer.completeness.notes).toMatchObject([{ kind: "limit" }]);
  });
});

describe("coral_mark_deployment", () => {
  it("needs more than read, and passes its input on", async () => {
    expect(() => findTool(colonyTools, "coral_mark_deployment", "read")).toThrow("needs the permission");
    const marked: unknown[] = [];
    const backend = colonyOf({
      markDeployment: async (request) => {
        marked.push(request);
        return { deployment: deploymentOf({ foundBy: ["mark"] }), isNew: true };
      },
    });
    await findTool(colonyTools, "coral_mark_deployment", "debug").call(backend, { service: "api", version: "1.2", ago: "10m" }, context);
    expect(marked).toEqual([{ service: "api", version: "1.2", note: "", agoMs: 600_000 }]);
  });
});
