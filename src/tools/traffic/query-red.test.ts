import { describe, expect, it, vi } from "vitest";
import type { SpanRedFacts } from "../../model/red.ts";
import type { ColonyBackend } from "../contract/backend.ts";
import { routeOf, steadily } from "../health/route-health.fixture.ts";
import { agentOf, colonyOf, context, serviceOf } from "../sample-colony.fixture.ts";
import type { RedResult } from "../schemas/traffic.ts";
import { call, messages, redFact, redOf } from "./traffic-tools.fixture.ts";

describe("coral_query_red", () => {
  it("derives rates, shares and the server's own time from the sums", async () => {
    const red = redOf([redFact("api", { errors: 6, points: [50, 0, 25], before: { requests: 300, errors: 3, p95Us: 1_500 } })]);
    const answer = await call<RedResult>("coral_query_red", {}, { red });
    expect(answer).toMatchObject({ by: "service", total: 1, windowMs: 60_000, sinceMs: 300_000, findings: [] });
    expect(answer.rows[0]).toMatchObject({
      perSecond: 10,
      errorRatio: 0.01,
      serviceMeanUs: 900,
      points: [10, 0, 5],
      before: { perSecond: 5, errorRatio: 0.01, p95Us: 1_500 },
    });
    expect(answer.completeness.complete).toBe(true);
  });

  it("omits points whose rows are still in transit, which would look like a drop", async () => {
    const red: ColonyBackend["red"] = async (...given) => ({
      ...(await redOf([redFact("api", { points: [50, 50, 12] })])(...given)),
      settledPoints: 2,
    });
    expect((await call<RedResult>("coral_query_red", {}, { red })).rows[0]?.points).toEqual([10, 10]);
  });

  it("notes only losses of the agents that run the named service", async () => {
    const losses = [
      { agentId: "web-1", loss: "ring-full", count: 7, service: null, detail: null },
      { agentId: "db-1", loss: "ring-full", count: 9, service: null, detail: null },
    ];
    const backend: Partial<ColonyBackend> = {
      agents: async () => [agentOf("web-1"), agentOf("db-1")],
      services: async () => [serviceOf("web-1", "checkout-api", 80), serviceOf("db-1", "db", 5432)],
      trafficLosses: async ({ agentIds }) => losses.filter(({ agentId }) => agentIds?.includes(agentId) ?? true),
      red: async ({ service }, given) => redOf(service === "Checkout" ? [] : [redFact("checkout-api")])({} as never, given),
    };
    expect(messages(await call("coral_query_red", {}, backend)).join()).toContain("16 records on web-1.example.org, db-1.example.org");
    for (const service of ["checkout-api", "Checkout"])
      expect(messages(await call("coral_query_red", { service }, backend)), service).toEqual([
        expect.stringContaining("7 records on web-1.example.org "),
      ]);
  });

  it("groups by route when a service is named, and passes every filter on", async () => {
    const red = vi.fn<ColonyBackend["red"]>(redOf([redFact("api")]));
    await call("coral_query_red", { service: "api", route: "/u", peer: "web", protocol: "http", role: "server", agent: "web-1" }, { red });
    expect(red.mock.calls[0]?.[0]).toMatchObject({
      service: "api",
      route: "/u",
      peer: "web",
      protocol: "http",
      role: "server",
      agentIds: ["web-1"],
      by: "route",
      sinceMs: 300_000,
    });
  });

  it("resolves the service name, and lists known ones when none matches", async () => {
    const services = async () => [serviceOf("web-1", "checkout-api", 80), serviceOf("web-1", "db", 5432)];
    const red = vi.fn<ColonyBackend["red"]>(async ({ service }) =>
      redOf(service === "checkout-api" ? [redFact("checkout-api")] : [])({} as never, context),
    );
    expect((await call<RedResult>("coral_query_red", { service: "Checkout" }, { red, services })).rows).toHaveLength(1);
    await expect(call("coral_query_red", { service: "nope" }, { red, services })).rejects.toMatchObject({
      code: "not-found",
      message: 'Cannot find service "nope": no service has that name; known services: checkout-api, db',
    });
    const quiet = await call<RedResult>("coral_query_red", { service: "db" }, { red, services });
    expect(quiet.rows).toEqual([]);
    expect(messages(quiet)).toEqual(["no matching request in this window; widen since"]);
  });

  it("adds services known only from spans, once, under the name of their process", async () => {
    const spanRow = (service: string, requests: number): SpanRedFacts["rows"][number] => ({
      ...{ service, role: "server", protocol: "http", method: null, route: null, status: null, requests, errors: requests / 10 },
      ...{ meanUs: 900, p50Us: 800, p95Us: 2_000, p99Us: 3_000, points: [requests / 2, requests / 2] },
    });
    const spanRed = vi.fn<ColonyBackend["spanRed"]>(async ({ service, endAgoMs }) => {
      const rows = [spanRow("api", 1_000), spanRow("shop-node", 600), spanRow("lambda", endAgoMs ? 300 : 60)];
      const fitting = rows.filter((row) => service === undefined || row.service === service);
      return { rows: fitting, total: fitting.length, startMs: 0, endMs: 60_000, coveredMs: 60_000 };
    });
    const services = async () => [serviceOf("web-1", "api", 81), { ...serviceOf("web-1", "shop", 80), pids: [7], exe: "/opt/shop" }];
    const resource = JSON.stringify({ "process.pid": 7, "process.executable.path": "/opt/shop" });
    const spanProcesses = async () => [{ agentId: "web-1", service: "shop-node", resource }];
    const over = { red: redOf([redFact("api")]), spanRed, services, spanProcesses };
    const { rows, total } = await call<RedResult>("coral_query_red", {}, over);
    expect(rows.map(({ service, source, perSecond, errorRatio }) => [service, source, perSecond, errorRatio])).toEqual([
      ["api", "hooks", expect.any(Number), expect.any(Number)],
      ["shop", "spans", 10, 0.1],
      ["lambda", "spans", 1, 0.1],
    ]);
    expect(total).toBe(3);
    expect(rows.at(-1)).toMatchObject({ before: { perSecond: 5 }, points: [1], queueMeanUs: null });
    const shop = await call<RedResult>("coral_query_red", { service: "shop" }, { ...over, red: redOf([]) });
    expect(shop.rows).toMatchObject([{ service: "shop", source: "spans", requests: 600 }]);
    // Hooks saw the service on another route, so its spans do not count.
    const red = vi.fn<ColonyBackend["red"]>((request) => redOf(request.route === undefined ? [redFact("api")] : [])(request, context));
    expect((await call<RedResult>("coral_query_red", { service: "api", route: "/none" }, { ...over, red })).rows).toEqual([]);
    expect((await call<RedResult>("coral_query_red", { by: "peer" }, { ...over, red: redOf([]) })).rows).toEqual([]);
  });

  it("resolves services known only from spans, even when idle", async () => {
    const spanServices = async () => ["Lambda"];
    expect((await call<RedResult>("coral_query_red", { service: "lambda" }, { red: redOf([]), spanServices })).rows).toEqual([]);
  });

  it("reports failing, slower and queueing routes by the rules of the summary, only for the shown rows", async () => {
    const routes = [
      routeOf("flaky", steadily({ errors: 10 }), { route: "/a/{id}" }),
      routeOf("broken", steadily({ errors: 50 }), { role: "client", method: "SELECT", route: "SELECT 1", protocol: "postgres" }),
      routeOf("slow", steadily({ p95Us: 150_000 })),
      routeOf("queued", steadily({ p50Us: 40_000, queueUs: 30_000 })),
      routeOf("hidden", steadily({ errors: 90 })),
    ];
    const red = redOf([
      redFact("flaky"),
      redFact("broken", { role: "client" }),
      redFact("slow"),
      redFact("queued"),
      redFact("fine", { errors: 60 }),
    ]);
    const summary: ColonyBackend["summary"] = async (request, one) => ({ ...(await colonyOf({}).summary(request, one)), routes });
    const { findings } = await call<RedResult>("coral_query_red", {}, { red, summary });
    expect(findings.map((finding) => `${finding.severity} ${finding.rule} ${finding.message}`)).toEqual([
      "critical error-share broken calls SELECT 1 fails 50% of 200 requests, was 0%",
      "warning error-share flaky GET /a/{id} fails 10% of 200 requests, was 0%",
      expect.stringMatching(/^warning slower-than-before slow GET \/a p95 is 147 ms, 2\.9 times the 50\.0 ms of the hour before/),
      expect.stringMatching(/^warning queueing queued GET \/a requests queue for 30\.0 ms of/),
    ]);
    const servers = await call<RedResult>("coral_query_red", { role: "server", route: "a/{ID" }, { red, summary });
    expect(servers.findings.map(({ service }) => service)).toEqual(["flaky"]);
  });

  it("reads fresh facts for findings about a named service, although facts of all services are cached", async () => {
    const order: string[] = [];
    const facts = redOf([redFact("orders")]);
    const red: ColonyBackend["red"] = async (...given) => {
      order.push("rows");
      return facts(...given);
    };
    // Read before the first failure arrived.
    const routes = [routeOf("orders", steadily({})), routeOf("other", steadily({ errors: 90 }))];
    const summary: ColonyBackend["summary"] = async (request, one) => ({ ...(await colonyOf({}).summary(request, one)), routes });
    const routeHealth: ColonyBackend["routeHealth"] = async ({ service }) => {
      order.push(`routes of ${service}`);
      return [routeOf("orders", steadily({ errors: 100 }), { route: "/fail" })];
    };
    const { findings } = await call<RedResult>("coral_query_red", { service: "orders" }, { red, summary, routeHealth });
    expect(findings.map(({ severity, rule, subject }) => `${severity} ${rule} ${subject}`)).toEqual(["critical error-share GET /fail"]);
    expect(order).toEqual(["rows", "routes of orders"]);
  });

  it("notes what hooks missed, and agents without hooks", async () => {
    const agents = async () => [
      agentOf("web-1"),
      agentOf("web-2", { capabilities: [{ name: "traffic", available: false, reason: "needs CAP_BPF; run it as root" }] }),
      agentOf("web-3", { capabilities: [{ name: "ebpf", available: true, reason: "" }] }),
    ];
    const ofHost = { service: null, detail: null };
    const trafficLosses = async () => [
      { agentId: "web-1", loss: "tls-opaque", count: 2, ...ofHost },
      { agentId: "web-3", loss: "tls-opaque", count: 1, ...ofHost },
      { agentId: "web-1", loss: "ring-full", count: 0, ...ofHost },
      { agentId: "web-3", loss: "sampled-out", count: 16, ...ofHost },
      { agentId: "web-1", loss: "away-seconds", count: 1, ...ofHost },
    ];
    const answer = await call<RedResult>("coral_query_red", {}, { agents, trafficLosses, red: redOf([redFact("api")]) });
    expect(messages(answer)).toEqual([
      "web-2.example.org sees no requests: needs CAP_BPF; run it as root",
      "3 TLS connections on web-1.example.org, web-3.example.org not decrypted: the TLS library is unknown, stripped or excluded; see coral agent status",
      "16 connections on web-3.example.org skipped with all their requests, to stay within the agent's CPU budget",
      "1 second on web-1.example.org unobserved: the traffic process was not running",
    ]);
    expect(answer.completeness.notes.map((note) => note.kind)).toEqual(["unavailable", "unavailable", "sampled", "rows-lost"]);
  });

  it("names services whose requests cannot be seen, limited to the requested one", async () => {
    const java = "Java's own TLS is not supported";
    const trafficLosses = async () => [
      { agentId: "a", loss: "tls-unreadable", count: 3, service: "payments", detail: java },
      { agentId: "a", loss: "tls-unreadable", count: 1, service: "billing", detail: java },
      { agentId: "a", loss: "unix-socket", count: 9, service: "shop", detail: "" },
      { agentId: "a", loss: "io-uring", count: 9, service: "shop", detail: "" },
    ];
    const agents = async () => [agentOf("a")];
    const ask = async (service?: string) =>
      messages(
        await call("coral_query_red", service === undefined ? {} : { service }, { agents, trafficLosses, red: redOf([redFact("shop")]) }),
      );
    const shop = [
      "requests of shop over unix sockets are not seen on a.example.org",
      "requests of shop by io_uring are not seen or have no status on a.example.org",
    ];
    expect(await ask()).toEqual([`requests of billing, payments inside TLS are not seen on a.example.org: ${java}`, ...shop]);
    expect(await ask("payments")).toEqual([`requests of payments inside TLS are not seen on a.example.org: ${java}`]);
    expect(await ask("shop")).toEqual(shop);
  });

  it("notes truncated rows, agents without hooks, and a colony without agents", async () => {
    const cut = await call<RedResult>("coral_query_red", { limit: 1 }, { red: redOf([redFact("api")], { total: 7 }) });
    expect(messages(cut)).toEqual(["1 of 7 rows are shown; narrow with service, route or peer, or raise limit"]);
    const off = async () => [agentOf("a", { capabilities: [{ name: "traffic", available: false, reason: "" }] })];
    expect(messages(await call("coral_query_red", {}, { agents: off }))).toEqual(["a.example.org sees no requests: kernel hooks are off"]);
    expect(messages(await call("coral_query_red", {}, { agents: async () => [] }))).toEqual([
      "no agent has joined this colony; start one with coral agent start",
    ]);
  });
});
