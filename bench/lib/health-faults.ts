/** Twenty kinds of fault, one after the other, in a shop of a dozen services. */

import type { SignalRows } from "../../src/store/queries/stored-hosts.fixture.ts";
import type { ServiceSummary } from "../../src/tools/schemas/summary.ts";
import { type Condition, Dice, HealthWorld, rowsOf, type SimulatedRoute, windowMs } from "./health-world.ts";

const minuteMs = 60_000;
const agentId = "web-1";
/** Rows arrive this long after their window. */
const pullMs = 5_000;
/** How long each fault lasts. */
const faultMs = 2 * minuteMs;
/** Pause after a fault, until everything is healthy again. */
const restMs = 4 * minuteMs;

/** What was found for one fault, and when. */
export interface FaultResult {
  name: string;
  /** From the end of the second bad window until the first line is right; null: never. */
  foundMs: number | null;
  /** From the repair until the service is ok. */
  goneMs: number | null;
  /** The last first line during the fault. */
  seen: string;
}

interface Fault {
  name: string;
  service: string;
  /** A part of the first line; empty if only the service is checked. */
  names: string;
  /** By `service route` for served requests, or `service > callee` for sent ones. */
  routes?: Record<string, Condition>;
  /** Other rows of each window. */
  rows?: (world: HealthWorld, index: number) => SignalRows;
  begin?: (world: HealthWorld) => Promise<void>;
  end?: (world: HealthWorld) => Promise<void>;
}

const route = (service: string, name: string, perSecond: number, medianMs: number, more: Partial<SimulatedRoute> = {}): SimulatedRoute => {
  const [method = "GET", path = name] = name.split(" ");
  const base = {
    service,
    agentId,
    role: "server",
    protocol: "http",
    method,
    route: path,
    peer: null,
    port: 80,
    perSecond,
    medianMs,
  } as const;
  return { ...base, spread: 0.3, errorRatio: 0, ...more };
};
const call = (service: string, callee: string, name: string, perSecond: number, medianMs: number): SimulatedRoute =>
  route(service, name, perSecond, medianMs, { role: "client", peer: callee });

const world: SimulatedRoute[] = [
  route("gateway", "GET /shop", 10, 40),
  route("gateway", "POST /buy", 4, 60),
  call("gateway", "shop", "GET /items", 10, 30),
  call("gateway", "shop", "POST /checkout", 4, 50),
  route("shop", "GET /items", 10, 30),
  route("shop", "POST /checkout", 4, 50),
  route("shop", "GET /rare", 0.3, 20),
  call("shop", "payments", "POST /charge", 4, 30),
  call("shop", "postgres", "SELECT items", 20, 2),
  route("payments", "POST /charge", 4, 30),
  route("payments", "GET /status", 20, 3, { errorRatio: 0.002 }),
  route("postgres", "SELECT items", 20, 2, { protocol: "postgres" }),
  route("redis", "GET cart", 30, 0.4, { protocol: "redis" }),
  route("redis", "BRPOP jobs", 1, 900, { protocol: "redis" }),
  route("search", "GET /find", 6, 25, { errorRatio: 0.02 }),
  route("mail", "POST /send", 0.5, 15),
  route("images", "GET /thumb", 8, 12),
  route("reports", "GET /daily", 1, 300),
  route("auth", "POST /login", 5, 20),
  route("auth", "GET /token", 40, 1.5),
  route("stock", "GET /stock", 6, 10),
];
const services = [...new Set(world.map(({ service }) => service))];

/** A failing or slow callee also shows at its callers. */
const passedOn = (condition: Condition): Record<string, Condition> => ({
  "payments POST /charge": condition,
  "shop > payments": condition,
  "shop POST /checkout": condition,
  "gateway > POST /checkout": condition,
  "gateway POST /buy": condition,
});

const groupRow = (world: HealthWorld, more: Partial<NonNullable<SignalRows["hostCgroup"]>[number]>): SignalRows => ({
  hostCgroup: [
    { atMs: world.nowMs, cgroup: "/images", cpu_cores: 0.5, cpu_limit_cores: 0.5, mem_used_bytes: 50, mem_limit_bytes: 100, ...more },
  ],
});
const faults: Fault[] = [
  { name: "one route of two fails", service: "shop", names: "POST /checkout", routes: { "shop POST /checkout": { errorRatio: 1 } } },
  { name: "a third of a route fails", service: "search", names: "GET /find", routes: { "search GET /find": { errorRatio: 0.33 } } },
  { name: "a tenth of a route fails", service: "auth", names: "GET /token", routes: { "auth GET /token": { errorRatio: 0.1 } } },
  { name: "a rare route fails", service: "shop", names: "GET /rare", routes: { "shop GET /rare": { errorRatio: 1 } } },
  { name: "a quiet service fails", service: "mail", names: "POST /send", routes: { "mail POST /send": { errorRatio: 1 } } },
  { name: "fails every other request", service: "stock", names: "GET /stock", routes: { "stock GET /stock": { errorRatio: 0.5 } } },
  { name: "ten times as slow", service: "images", names: "GET /thumb", routes: { "images GET /thumb": { times: 10 } } },
  { name: "three times as slow", service: "search", names: "GET /find", routes: { "search GET /find": { times: 3.5 } } },
  {
    name: "a fifth of the requests is slow",
    service: "auth",
    names: "POST /login",
    routes: { "auth POST /login": { part: 0.2, addMs: 400 } },
  },
  { name: "a slow route is slower", service: "reports", names: "GET /daily", routes: { "reports GET /daily": { times: 4 } } },
  {
    name: "a lock in the database",
    service: "postgres",
    names: "SELECT items",
    routes: {
      "postgres SELECT items": { addMs: 80 },
      "shop > postgres": { addMs: 80 },
      "shop GET /items": { addMs: 160 },
      "gateway > GET /items": { addMs: 160 },
      "gateway GET /shop": { addMs: 160 },
    },
  },
  {
    name: "a slow cache, beside blocked readers",
    service: "redis",
    names: "GET cart",
    routes: { "redis GET cart": { addMs: 30 }, "redis BRPOP jobs": { times: 5 } },
  },
  { name: "a failing callee, passed on twice", service: "payments", names: "POST /charge", routes: passedOn({ errorRatio: 0.6 }) },
  { name: "a few failing calls, passed on twice", service: "payments", names: "POST /charge", routes: passedOn({ errorRatio: 0.15 }) },
  { name: "a slow callee, passed on twice", service: "payments", names: "POST /charge", routes: passedOn({ addMs: 500 }) },
  {
    name: "requests wait for a worker",
    service: "images",
    names: "GET /thumb",
    routes: { "images GET /thumb": { queueMs: 60, addMs: 60 } },
  },
  {
    name: "throttled at its CPU limit",
    service: "images",
    names: "throttled",
    routes: { "images GET /thumb": { times: 1.3 } },
    rows: (one, index) => (index % 2 === 0 ? groupRow(one, { throttled_ratio: 0.33 }) : {}),
  },
  {
    name: "killed at its memory limit",
    service: "images",
    names: "memory limit",
    rows: (one, index) => (index % 2 === 0 ? groupRow(one, { oom_kills: 1, mem_used_bytes: 99 }) : {}),
  },
  {
    name: "its check fails",
    service: "stock",
    names: "health check",
    begin: (one) => one.register("stock", agentId, 10_011, true, "unhealthy"),
    end: (one) => one.register("stock", agentId, 10_011, true, "healthy"),
  },
  {
    name: "gone, with callers that fail",
    service: "payments",
    names: "not running",
    routes: {
      "payments POST /charge": { rate: 0 },
      "payments GET /status": { rate: 0 },
      "shop > payments": { rate: 0 },
      "shop POST /checkout": { errorRatio: 1 },
    },
    begin: (one) => one.register("payments", agentId, 10_002, false),
    end: (one) => one.register("payments", agentId, 10_002),
    rows: (one, index) => (index === 0 ? { event: [one.event("service-exited", "error", "payments")] } : {}),
  },
];

const keyOf = ({ role, service, peer, method, route: path }: SimulatedRoute): string[] =>
  role === "server" ? [`${service} ${method} ${path}`] : [`${service} > ${peer}`, `${service} > ${method} ${path}`];

/** All faults one after the other in one simulated world. The same seed gives the same requests. */
export async function simulateFaults(seed: number): Promise<FaultResult[]> {
  const dice = new Dice(seed + 1);
  await using one = await new HealthWorld(Date.UTC(2026, 0, 5), [agentId]).open();
  for (const [index, service] of services.entries()) await one.register(service, agentId, 10_000 + index);
  await one.run(
    `INSERT INTO net.service_instances (agent_id, service, protocol, port, address, pid, start_ticks, netns, content, named_by, confidence, method, cgroup, managed, first_seen)
     VALUES ('${agentId}', 'images', 'tcp', 1, '', 1, 1, 1, 1, 'script', 1, 'm', '/images', false, make_timestamp(0))`,
  );
  const step = async (fault: Fault | null, index: number): Promise<ServiceSummary[]> => {
    one.nowMs = Math.floor(one.nowMs / windowMs) * windowMs + windowMs;
    const red = world.flatMap((made) => {
      const condition =
        keyOf(made)
          .map((key) => fault?.routes?.[key])
          .find((found) => found !== undefined) ?? {};
      return rowsOf(made, one.nowMs, condition, dice);
    });
    const host = { atMs: one.nowMs, cpu_busy_ratio: 0.3, psi_cpu_some_ratio: 0.02, mem_total_bytes: 100, mem_available_bytes: 50 };
    await one.add(new Map([[agentId, { red, host: [host], ...fault?.rows?.(one, index) }]]));
    one.nowMs += pullMs;
    if (one.nowMs % minuteMs < windowMs) await one.store.rollup();
    return fault === null && index < 0 ? [] : await one.judge();
  };
  for (let index = 0; index < (12 * minuteMs) / windowMs; index++) await step(null, -1);
  const results: FaultResult[] = [];
  for (const fault of faults) results.push(await simulateFault(one, fault, step));
  return results;
}

type Step = (fault: Fault | null, index: number) => Promise<ServiceSummary[]>;

async function simulateFault(one: HealthWorld, fault: Fault, step: Step): Promise<FaultResult> {
  await fault.begin?.(one);
  const startMs = Math.floor(one.nowMs / windowMs) * windowMs;
  let [foundMs, goneMs, seen]: [number | null, number | null, string] = [null, null, ""];
  for (let index = 0; index < faultMs / windowMs; index++) {
    const [first] = await step(fault, index);
    seen = `${first?.service} ${first?.health}: ${first?.findings[0]?.message ?? ""}`;
    const isRight = first?.service === fault.service && first.health !== "ok" && (first.findings[0]?.message ?? "").includes(fault.names);
    // Once it is right, it must stay right.
    foundMs = isRight ? (foundMs ?? Math.max(0, one.nowMs - startMs - 2 * windowMs)) : null;
  }
  const repairedMs = one.nowMs - pullMs;
  await fault.end?.(one);
  for (let index = 0; index < restMs / windowMs; index++) {
    const isIll = (await step(null, index)).some(({ health }) => health === "critical" || health === "degraded");
    goneMs = isIll ? null : (goneMs ?? one.nowMs - repairedMs);
  }
  return { name: fault.name, foundMs, goneMs, seen };
}
