import { describe, expect, it } from "vitest";
import type { Deployment, ServiceSummary, SummaryDetails, SummaryResult } from "../../../tools/index.ts";
import { useColony } from "../../daemon.fixture.ts";

const here = useColony();

const nowMs = Date.now();
const iso = (agoMs: number): string => new Date(nowMs - agoMs).toISOString();

function summaryOf(service: string, change: Partial<ServiceSummary> = {}): ServiceSummary {
  return {
    service,
    health: "ok",
    findings: [],
    requests: {
      source: "hooks",
      role: "server",
      requests: 12_300,
      errors: 12,
      perSecond: 41,
      errorRatio: 0.001,
      p50Us: 950,
      p95Us: 4_200,
      p99Us: 12_500,
      before: { perSecond: 40, errorRatio: 0, p95Us: 4_100 },
      yesterday: null,
    },
    instances: 2,
    hosts: 1,
    deployment: null,
    ...change,
  };
}

const slow = {
  rule: "latency",
  severity: "critical",
  kind: "symptom",
  subject: "",
  message: "p95 is 240 ms",
  value: 6,
  threshold: 5,
  unit: "times",
} as const;
const full = {
  rule: "host-cpu",
  severity: "info",
  kind: "cause",
  subject: "vm",
  message: "host vm: CPUs are busy",
  value: 1,
  threshold: 0.9,
  unit: "ratio",
} as const;

function resultOf(services: ServiceSummary[]): SummaryResult {
  const of = (health: string): number => services.filter((one) => one.health === health).length;
  return {
    sinceMs: 300_000,
    windowMs: 300_000,
    totals: { services: services.length, critical: of("critical"), degraded: of("degraded"), unknown: of("unknown"), ok: of("ok") },
    services,
  };
}

describe("coral query summary", () => {
  it("prints all services with the worst finding of each, and no host findings for healthy ones", async () => {
    here.colony.tool(
      "coral_query_summary",
      resultOf([
        summaryOf("checkout", { health: "critical", findings: [slow, full] }),
        summaryOf("api", { findings: [full] }),
        summaryOf("worker", { health: "unknown", requests: null }),
      ]),
    );
    const { code, stdout } = await here.world.coral("query summary --since 15m --limit 3");
    expect(code).toBe(0);
    expect(here.colony.calls[0]?.body).toEqual({ since: "15m", limit: 3 });
    expect(stdout).toBe(
      [
        "3 services  last 5m · 1 critical · 1 unknown · 1 ok",
        "SERVICE   HEALTH    REQ/S  ERRORS    P95  BEFORE  WHY",
        "checkout  critical     41    0.1%  4.2ms   4.1ms  p95 is 240 ms",
        "api       ok           41    0.1%  4.2ms   4.1ms  -",
        "worker    unknown       -       -      -       -  no signals received",
        "",
      ].join("\n"),
    );
  });

  it("names the worst open incident in one line below the counts", async () => {
    const since = iso(600_000);
    const worst = { id: "inc-7", severity: "critical", since, endedAt: null, service: "api", measure: "latency", now: 300_000 } as const;
    here.colony.tool("coral_query_summary", { ...resultOf([summaryOf("api")]), incidents: { open: 2, worst } });
    const [, line] = (await here.world.coral("query summary")).stdout.split("\n");
    expect(line).toMatch(/^2 open incidents, worst: api is slow (since|for) .* \(coral incidents\)$/);
  });

  it("prints one in full: findings and onset, then hosts, then events, then the next step", async () => {
    const amounts = {
      requests: 3_000,
      perSecond: 10,
      errorRatio: 0.2,
      p95Us: 290_000,
      before: { perSecond: 10, errorRatio: 0, p95Us: 50_000 },
    };
    const details: SummaryDetails = {
      onsetAt: iso(720_000),
      routes: [{ route: "GET /a", ...amounts }],
      callers: [],
      callees: [{ peer: "db\u001b[31m", change: "failing", ...amounts }],
      hosts: [
        {
          agentId: "web-1",
          hostname: "web-1",
          cpuBusyRatio: 0.5,
          memUsedRatio: 0.4,
          psiCpuRatio: 0.2,
          psiMemoryRatio: 0,
          psiIoRatio: null,
          cgroups: [
            {
              cgroup: "/system.slice/api.service",
              cpuCores: 0.9,
              cpuLimitCores: 1,
              throttledRatio: 0.3,
              memUsedBytes: 1024,
              memLimitBytes: null,
            },
          ],
        },
      ],
      load: { cpuCores: 0.9, rssBytes: 1024 ** 2, before: { cpuCores: 0.2, rssBytes: 1024 ** 2 } },
      newPatterns: [{ pattern: "p1", severity: "error", template: "no connection to <*>", records: 12, firstAt: iso(700_000) }],
      hotFunctions: [
        { name: "hashPassword", file: "/srv/api/auth.js", self: 0.41, total: 0.42, totalBefore: 0.08, grew: true },
        { name: "do_syscall_64", file: "", self: 0.05, total: 0.3, totalBefore: null, grew: false },
      ],
      events: [{ at: iso(730_000), kind: "deployment", severity: "info", message: "api was deployed: 1.4 instead of 1.3" }],
      course: {
        startAt: iso(3_900_000),
        stepMs: 60_000,
        perSecond: [0, 0, 1, 2],
        errorRatio: [0, 0, 0, 0.5],
        p95Us: [null, null, 5_000, 290_000],
      },
    };
    const callee = { ...slow, rule: "callee-failing", kind: "cause", subject: "db", message: "20% of requests to db failed" } as const;
    const deployment = { at: iso(730_000), what: "1.4", verdict: "regression", isComplete: true, reason: "" } as const;
    here.colony.tool(
      "coral_query_summary",
      resultOf([summaryOf("api", { health: "critical", findings: [slow, callee], details, deployment })]),
    );
    const { stdout } = await here.world.coral("query summary api");
    expect(here.colony.calls[0]?.body).toEqual({ since: "5m", service: "api" });
    expect(stdout).toContain("api  critical · last 5m · 2 processes on 1 host\n  critical: p95 is 240 ms\n");
    expect(stdout).toMatch(/since: .*, 12m (?:\d+s )?ago, just when it was deployed/);
    expect(stdout).toMatch(/served now +41 +0.1% +950µs +4.2ms +13ms/);
    expect(stdout).toMatch(/the hour before +40 +0% +- +4.1ms/);
    expect(stdout).toMatch(/the last 2m, per minute/);
    expect(stdout).toMatch(/GET \/a +10 +20% +290ms +50ms +5.8×/);
    expect(stdout).toMatch(/db\S* +10 +20% +290ms +50ms +5.8× +failing/);
    expect(stdout).not.toContain("\u001b");
    expect(stdout).toContain("host web-1: cpu 50% · memory 40% · waits for cpu 20%");
    expect(stdout).toContain("/system.slice/api.service: 0.90 of 1 cores · throttled 30% · 1.00 KiB");
    expect(stdout).toContain("its processes: 0.90 cores, 1.00 MiB (0.20 and 1.00 MiB in the hour before)");
    expect(stdout).toMatch(/error +12 +no connection to <\*>/);
    expect(stdout).toMatch(/41% +42% +8.0% +hashPassword +\/srv\/api\/auth.js/);
    expect(stdout).toMatch(/5.0% +30% +- +do_syscall_64 +kernel/);
    expect(stdout).toContain("api was deployed: 1.4 instead of 1.3");
    expect(stdout).toContain("next: coral query summary db");
  });

  it("shows how to observe requests where none were seen, and prints CSV", async () => {
    here.colony.tool("coral_query_summary", resultOf([summaryOf("api", { requests: null })]));
    expect((await here.world.coral("query summary api")).stdout).toContain("no requests observed");
    const { stdout } = await here.world.coral("query summary -o csv");
    expect(stdout.split("\n")[0]).toBe("service,health,perSecond,errorRatio,p95Us,before.p95Us,yesterday.p95Us,why,source,instances,hosts");
  });
});

const deployment: Deployment = {
  id: "dep-1",
  service: "api",
  at: iso(600_000),
  foundBy: ["build", "mark"],
  build: "bbbbbbbbbbbbbbbb",
  previousBuild: "aaaaaaaaaaaaaaaa",
  version: null,
  previousVersion: null,
  note: "new cache",
  markedBy: "token:ci",
  agents: ["web-1"],
  verdict: "regression",
  reason: "GET / p95 2 ms → 4 ms (+100%)",
  isComplete: false,
  report: {
    source: "hooks",
    beforeMs: 3_600_000,
    afterMs: 300_000,
    requestsBefore: 36_000,
    requestsAfter: 3_000,
    comparisons: 12,
    tooFew: 1,
    alpha: 0.0025,
    changes: [
      { metric: "p95", subject: "GET /", outcome: "worse", unit: "us", before: 2_000, after: 4_000, effect: 0.41, pValue: 1e-9 },
      { metric: "errors", subject: "GET /", outcome: "worse", unit: "ratio", before: 0, after: 0.1, effect: 0.64, pValue: 0.0004 },
      { metric: "rate", subject: "POST /", outcome: "changed", unit: "per-second", before: 10, after: 0, effect: null, pValue: 0.001 },
    ],
    newEgress: ["s3.example.com:443"],
    newErrors: [{ template: "boom <num>", severity: "error", records: 7 }],
  },
  state: "complete",
  shares: [],
  endedAt: null,
};

describe("coral query deployments", () => {
  it("prints one line each, and one service's with every change", async () => {
    here.colony.tool("coral_query_deployments", { sinceMs: 86_400_000, deployments: [deployment] });
    const list = await here.world.coral("query deployments");
    expect(list.stdout).toMatch(/api +bbbbbbbb ← aaaaaaaa \(new cache\) +regression so far +complete +GET \/ p95/);
    expect(here.colony.calls[0]?.body).toEqual({ since: "1d" });
    const { stdout } = await here.world.coral("query deployments api --since 7d");
    expect(here.colony.calls[1]?.body).toEqual({ since: "7d", service: "api" });
    expect(stdout).toMatch(/worse +GET \/ +p95 +2.0ms +4.0ms +\+100% +0.41 +< 10⁻⁶/);
    expect(stdout).toMatch(/worse +GET \/ +errors +0% +10% +- +0.64 +4e-4/);
    expect(stdout).toMatch(/changed +POST \/ +rate +10\/s +0\/s/);
    expect(stdout).toContain("new external calls: s3.example.com:443");
    expect(stdout).toContain("new error, 7 records: boom <num>");
    expect(stdout).toContain("36,000 requests in 1h before, 3,000 in 5m after · 12 comparisons · 1 routes with too few");
  });

  it("prints a note for no rows", async () => {
    here.colony.tool("coral_query_deployments", { sinceMs: 86_400_000, deployments: [] });
    const { stdout, stderr } = await here.world.coral("query deployments");
    expect(stdout).toBe("");
    expect(stderr).toContain("No deployments in the last 1d");
  });
});

describe("coral deploy mark", () => {
  it("prints only the id, and notes whether it was detected before", async () => {
    here.colony.tool("coral_mark_deployment", { deployment, isNew: false });
    const { code, stdout, stderr } = await here.world.coral("deploy mark api --version 1.4.2 --note cache --ago 5m");
    expect(stderr).toContain("had detected this deployment");
    expect(here.colony.calls[0]?.body).toEqual({ service: "api", version: "1.4.2", note: "cache", ago: "5m" });
    expect([code, stdout]).toEqual([0, "dep-1\n"]);
    expect(stderr).toContain("had detected this deployment");
  });
});
