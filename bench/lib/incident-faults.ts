/** Faults in a shop of fifteen services, one after the other: when incidents open and close, how many, and what they merge. */

import type { Incident } from "../../src/model/incident.ts";
import type { SignalRows } from "../../src/store/queries/stored-hosts.fixture.ts";
import { type Condition, Dice, HealthWorld, rowsOf, type SimulatedRoute, windowMs } from "./health-world.ts";
import { watchIncidents } from "./incident-world.ts";

const minuteMs = 60_000;
const agentId = "web-1";
/** Simulated time before the first fault, so that baselines exist. */
const warmUpMs = 40 * minuteMs;
/** Rows arrive this long after their window, and the watch evaluates every five seconds. */
const pullMs = 3_000;
/** How long each fault lasts. */
const faultMs = 4 * minuteMs;
/** Pause after a fault, until its incident is closed. */
const restMs = 14 * minuteMs;

type Part = Pick<SimulatedRoute, "service" | "route" | "perSecond" | "medianMs"> & Partial<SimulatedRoute>;
const routeOf = (part: Part): SimulatedRoute => ({
  ...{ agentId, role: "server", protocol: "http", method: "GET", peer: null, port: 80, spread: 0.3, errorRatio: 0 },
  ...part,
});
const served = (service: string, route: string, perSecond: number, medianMs: number): SimulatedRoute =>
  routeOf({ service, route, perSecond, medianMs });
const sent = (service: string, peer: string, route: string, perSecond: number, medianMs: number): SimulatedRoute =>
  routeOf({ service, route, perSecond, medianMs, peer, role: "client" });

/** gateway → shop → payments, postgres; admin → postgres; the others are called from outside. */
const shop: SimulatedRoute[] = [
  ...[served("gateway", "/shop", 10, 40), served("gateway", "/buy", 4, 60), sent("gateway", "shop", "/items", 10, 30)],
  ...[sent("gateway", "shop", "/checkout", 4, 50), served("shop", "/items", 10, 30), served("shop", "/checkout", 4, 50)],
  ...[sent("shop", "payments", "/charge", 4, 30), sent("shop", "postgres", "items", 10, 2), served("payments", "/charge", 4, 30)],
  ...[served("postgres", "items", 10, 2), served("postgres", "orders", 3, 4), served("admin", "/orders", 3, 25)],
  ...[sent("admin", "postgres", "orders", 3, 4), served("search", "/find", 6, 25), served("images", "/thumb", 8, 12)],
  ...[served("auth", "/login", 5, 20), served("auth", "/token", 40, 1.5), served("reports", "/daily", 1, 300)],
  ...[served("stock", "/stock", 6, 10), served("mail", "/send", 0.8, 15)],
];

interface Fault {
  name: string;
  /** By `service route` for served requests, or `service > callee route` for sent ones. */
  conditions: Record<string, Condition>;
  /** Entry services of each expected incident, with the cause. */
  expected: { entries: string[]; cause: string }[];
}

const payments = (condition: Condition): Record<string, Condition> => ({
  "payments /charge": condition,
  "shop > payments /charge": condition,
  "shop /checkout": condition,
  "gateway > shop /checkout": condition,
  "gateway /buy": condition,
});
const postgres = (condition: Condition): Record<string, Condition> => ({
  "postgres items": condition,
  "postgres orders": condition,
  "shop > postgres items": condition,
  "admin > postgres orders": condition,
  "shop /items": condition,
  "gateway > shop /items": condition,
  "gateway /shop": condition,
  "admin /orders": condition,
});
const one = (service: string) => [{ entries: [service], cause: service }];

const faults: Fault[] = [
  { name: "search fails a third", conditions: { "search /find": { errorRatio: 0.33 } }, expected: one("search") },
  { name: "images ten times as slow", conditions: { "images /thumb": { times: 10 } }, expected: one("images") },
  {
    name: "payments slow, behind two services",
    conditions: payments({ addMs: 500 }),
    expected: [{ entries: ["gateway"], cause: "payments" }],
  },
  {
    name: "payments fails, behind two services",
    conditions: payments({ errorRatio: 0.6 }),
    expected: [{ entries: ["gateway"], cause: "payments" }],
  },
  {
    name: "postgres slow, under two entries",
    conditions: postgres({ addMs: 150 }),
    expected: [{ entries: ["admin", "gateway"], cause: "postgres" }],
  },
  {
    name: "two faults at once",
    conditions: { "search /find": { errorRatio: 0.5 }, "images /thumb": { times: 12 } },
    expected: [...one("images"), ...one("search")],
  },
  { name: "stock fails altogether", conditions: { "stock /stock": { errorRatio: 1 } }, expected: one("stock") },
  { name: "a fifth of the logins is slow", conditions: { "auth /login": { part: 0.2, addMs: 600 } }, expected: one("auth") },
  { name: "tokens three times as slow", conditions: { "auth /token": { times: 9 } }, expected: one("auth") },
  { name: "reports five times as slow", conditions: { "reports /daily": { times: 6 } }, expected: one("reports") },
  { name: "mail fails", conditions: { "mail /send": { errorRatio: 1 } }, expected: one("mail") },
];

/** One fault with the incident that was opened for it. */
export interface IncidentFault {
  name: string;
  /** From the start of the fault until the first incident; null: none. */
  openedMs: number | null;
  /** From the repair until all were closed. */
  closedMs: number | null;
  isRight: boolean;
  seen: string;
}

const keyOf = ({ role, service, peer, route }: SimulatedRoute): string =>
  role === "server" ? `${service} ${route}` : `${service} > ${peer} ${route}`;

/** All faults one after the other in one simulated world. */
export async function simulateIncidents(seed: number): Promise<IncidentFault[]> {
  const dice = new Dice(seed + 3);
  await using world = await new HealthWorld(Date.UTC(2026, 0, 5), [agentId]).open();
  for (const [index, service] of [...new Set(shop.map((route) => route.service))].entries())
    await world.register(service, agentId, 10_000 + index);
  const { watch, incidents } = watchIncidents(world, [agentId]);
  const { signal } = new AbortController();
  /** One window, of which `share` is faulty: faults do not start with a window. */
  const step = async (conditions: Record<string, Condition>, share = 1): Promise<void> => {
    const endMs = Math.floor(world.nowMs / windowMs) * windowMs + windowMs;
    const red = shop.flatMap((route) => {
      const condition = conditions[keyOf(route)];
      if (condition === undefined || share === 1) return rowsOf(route, endMs, condition ?? {}, dice);
      return [...rowsOf(route, endMs, { ...condition, rate: share }, dice), ...rowsOf(route, endMs, { rate: 1 - share }, dice)];
    });
    const rows: SignalRows = { red, host: [{ atMs: endMs, cpu_busy_ratio: 0.3, mem_total_bytes: 100, mem_available_bytes: 50 }] };
    world.nowMs = endMs + pullMs;
    await world.add(new Map([[agentId, rows]]));
    if (endMs % minuteMs === 0) await world.store.rollup();
    await watch.step(signal);
  };
  const run = async (forMs: number, conditions: Record<string, Condition> = {}): Promise<void> => {
    for (const endMs = world.nowMs + forMs; world.nowMs < endMs; ) await step(conditions);
  };
  await run(warmUpMs);
  const results: IncidentFault[] = [];
  for (const fault of faults) {
    const before = new Set((await incidents()).map(({ number }) => number));
    const share = dice.next();
    const startMs = Math.ceil(world.nowMs / windowMs) * windowMs - share * windowMs;
    await step(fault.conditions, share);
    await run(faultMs, fault.conditions);
    const repairedMs = world.nowMs;
    await run(restMs);
    const own = (await incidents()).filter(({ number }) => !before.has(number));
    results.push(scored(fault, own, { startMs, repairedMs }));
  }
  return results;
}

function scored(fault: Fault, own: readonly Incident[], { startMs, repairedMs }: { startMs: number; repairedMs: number }): IncidentFault {
  const whole = own.filter(({ state }) => state !== "merged");
  const textOf = (entries: readonly string[], cause: string): string => `${[...new Set(entries)].sort().join("+")} because of ${cause}`;
  const seen = whole
    .map(({ symptoms, cause }) =>
      textOf(
        symptoms.map(({ service }) => service),
        cause?.service ?? "unknown",
      ),
    )
    .sort();
  const expected = fault.expected.map(({ entries, cause }) => textOf(entries, cause)).sort();
  const closed = whole.map(({ closedMs }) => closedMs);
  return {
    name: fault.name,
    openedMs: own.length === 0 ? null : Math.min(...own.map(({ openedMs }) => openedMs)) - startMs,
    closedMs: whole.length === 0 || closed.includes(null) ? null : Math.max(...closed.map((ms) => ms ?? 0)) - repairedMs,
    isRight: seen.join(", ") === expected.join(", "),
    seen: seen.join(", "),
  };
}
