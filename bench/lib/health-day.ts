/** A day of 100 healthy services with many changes. */

import type { SignalRows } from "../../src/store/queries/stored-hosts.fixture.ts";
import { type Condition, Dice, HealthWorld, rowsOf, type SimulatedRoute, windowMs } from "./health-world.ts";

const minuteMs = 60_000;
const hourMs = 60 * minuteMs;
const agents = ["web-1", "web-2", "web-3", "db-1", "jobs-1"];

interface Service {
  name: string;
  agentId: string;
  port: number;
  routes: SimulatedRoute[];
  /** Minutes of each hour in which it gets requests. */
  batch: { from: number; until: number } | null;
  /** When it moves to another port, as in a blue-green deployment. */
  movesMs: number | null;
  /** When it ends permanently, as a client or a job. */
  endsMs: number | null;
  /** When it starts. */
  startsMs: number;
  /** The client that calls it, with its share of the traffic. */
  client: Service | null;
  rate: { atMs: number; factor: number }[];
  speed: { atMs: number; factor: number }[];
  quiet: { fromMs: number; untilMs: number }[];
  blips: Map<number, Condition>;
}

/** A period in which a service was reported as unhealthy. */
export interface Episode {
  service: string;
  health: string;
  atMs: number;
  reason: string;
}

/** Called after each step; default: evaluates health. */
export interface DayWatch {
  stepMs: number;
  look: (world: HealthWorld) => Promise<void>;
}

export async function simulateDay(
  hours: number,
  count: number,
  seed: number,
  watch?: DayWatch,
): Promise<{ episodes: Episode[]; evaluations: number }> {
  const dice = new Dice(seed);
  const startMs = Date.UTC(2026, 0, 5);
  const endMs = startMs + hours * hourMs;
  await using world = await new HealthWorld(startMs, agents).open();
  const services = Array.from({ length: count }, (_, index) => serviceOf(index, startMs, endMs, dice));
  for (const client of services.filter(({ endsMs }) => endsMs !== null)) {
    const target = services[Math.floor(dice.between(0, count * 0.7))];
    if (!target || target.endsMs !== null) continue;
    target.client = client;
    client.routes = target.routes.map((route) => ({
      ...route,
      service: client.name,
      agentId: client.agentId,
      role: "client",
      peer: target.name,
      port: target.port,
    }));
  }
  const noise = Array.from({ length: Math.ceil(hours / 2) }, () => {
    const fromMs = dice.between(startMs, endMs);
    return { agentId: agents[Math.floor(dice.between(0, 5))] ?? "", fromMs, untilMs: fromMs + dice.between(1, 5) * minuteMs };
  });
  const restarts = Array.from({ length: Math.ceil(hours / 4) }, () => {
    const fromMs = dice.between(startMs, endMs);
    return { agentId: agents[Math.floor(dice.between(0, 5))] ?? "", fromMs, untilMs: fromMs + dice.between(20, 70) * 1_000 };
  });
  const episodes: Episode[] = [];
  const ill = new Map<string, string>();
  let evaluations = 0;
  const stepMs = watch?.stepMs ?? minuteMs;
  for (let stepStartMs = startMs; stepStartMs < endMs; stepStartMs += stepMs) {
    const rows = new Map<string, SignalRows>(agents.map((agentId) => [agentId, { red: [], host: [], event: [] }]));
    for (let atMs = stepStartMs + windowMs; atMs <= stepStartMs + stepMs; atMs += windowMs) {
      world.nowMs = atMs;
      for (const agentId of agents) {
        const isNoisy = noise.some((one) => one.agentId === agentId && one.fromMs < atMs && atMs <= one.untilMs);
        const busy = isNoisy ? 0.96 : 0.3 + 0.05 * dice.normal();
        if ((atMs / windowMs) % 3 !== 0)
          rows.get(agentId)?.host?.push({
            atMs,
            cpu_busy_ratio: busy,
            psi_cpu_some_ratio: isNoisy ? 0.5 : 0.02,
            mem_total_bytes: 100,
            mem_available_bytes: 50,
          });
      }
      for (const service of services) {
        const agent = rows.get(service.agentId);
        await lifecycle(world, service, atMs, agent);
        const isAway = restarts.some((one) => one.agentId === service.agentId && one.fromMs < atMs && atMs <= one.untilMs);
        const isNoisy = noise.some((one) => one.agentId === service.agentId && one.fromMs < atMs && atMs <= one.untilMs);
        const condition = conditionAt(service, atMs, isNoisy ? dice.between(1, 4) : 0);
        if (isAway || condition === null) continue;
        for (const route of service.routes) agent?.red?.push(...rowsOf(route, atMs, condition, dice));
      }
    }
    world.nowMs = stepStartMs + stepMs + 5_000;
    await world.add(rows);
    if ((stepStartMs + stepMs) % minuteMs === 0) await world.store.rollup();
    evaluations++;
    if (watch) {
      await watch.look(world);
      continue;
    }
    for (const { service, health, findings } of await world.judge()) {
      const isIll = health === "critical" || health === "degraded";
      if (isIll && ill.get(service) !== health)
        episodes.push({
          service,
          health,
          atMs: world.nowMs,
          reason: findings.map((one) => `${one.severity} ${one.rule}: ${one.message}`).join("; "),
        });
      if (isIll) ill.set(service, health);
      else ill.delete(service);
    }
  }
  return { episodes, evaluations };
}

function serviceOf(index: number, startMs: number, endMs: number, dice: Dice): Service {
  const agentId = agents[index % agents.length] ?? "";
  const [name, port] = [`service-${index}`, 10_000 + index];
  const isEnding = index % 10 === 9;
  const isBatch = index % 12 === 11;
  const perSecond = Math.exp(dice.between(Math.log(0.05), Math.log(8)));
  const medianMs = Math.exp(dice.between(Math.log(0.5), Math.log(80)));
  const errorRatio = dice.next() < 0.7 ? 0 : dice.next() < 0.8 ? dice.between(0, 0.005) : dice.between(0.01, 0.04);
  const lengthMs = endMs - startMs;
  const moments = (aDay: number): number[] =>
    Array.from({ length: dice.poisson((aDay * lengthMs) / (24 * hourMs)) }, () => dice.between(startMs + 10 * minuteMs, endMs));
  const deploys = moments(1);
  const routes = Array.from(
    { length: 1 + Math.floor(dice.between(0, 3)) },
    (_, number): SimulatedRoute => ({
      service: name,
      agentId,
      role: isEnding ? "client" : "server",
      protocol: "http",
      method: "GET",
      route: `/things/${number}`,
      peer: null,
      port,
      perSecond: perSecond / (1 + number),
      medianMs: medianMs * (1 + number),
      spread: dice.between(0.2, 0.6),
      errorRatio,
    }),
  );
  return {
    name,
    agentId,
    port,
    routes,
    batch: isBatch ? { from: dice.between(0, 40), until: dice.between(45, 60) } : null,
    movesMs: index % 25 === 7 ? dice.between(startMs + hourMs / 2, endMs) : null,
    endsMs: isEnding ? dice.between(startMs + hourMs, endMs) : null,
    startsMs: dice.next() < 0.2 ? dice.between(startMs, endMs - hourMs / 2) : startMs,
    client: null,
    rate: moments(0.7).map((atMs) => ({ atMs, factor: Math.exp(dice.between(Math.log(0.15), Math.log(4))) })),
    speed: deploys.map((atMs) => ({ atMs, factor: dice.between(0.85, 1.2) })),
    quiet: [...deploys, ...moments(1)].map((fromMs) => ({ fromMs, untilMs: fromMs + dice.between(3, 15) * 1_000 })),
    blips: new Map(
      moments(3).map((atMs): [number, Condition] => [
        Math.floor(atMs / windowMs),
        dice.next() < 0.5 ? { part: 0.25, addMs: 300 } : { errorRatio: errorRatio + 0.12 },
      ]),
    ),
  };
}

/** Null: it gets no requests. */
function conditionAt(service: Service, atMs: number, noiseMs: number): Condition | null {
  if (atMs < service.startsMs || (service.endsMs !== null && atMs > service.endsMs)) return null;
  if (service.quiet.some(({ fromMs, untilMs }) => fromMs < atMs && atMs - windowMs < untilMs && untilMs - fromMs > windowMs / 2))
    return null;
  const minute = (atMs % hourMs) / minuteMs;
  if (service.batch && (minute < service.batch.from || minute >= service.batch.until)) return null;
  const factor = (steps: readonly { atMs: number; factor: number }[]): number =>
    steps.filter((step) => step.atMs <= atMs).reduce((product, step) => product * step.factor, 1);
  const daily = 1 + 0.4 * Math.sin((2 * Math.PI * (atMs % (24 * hourMs))) / (24 * hourMs));
  const isClientGone = service.client?.endsMs !== null && service.client !== null && atMs > (service.client.endsMs ?? 0);
  const blip = service.blips.get(Math.floor(atMs / windowMs)) ?? {};
  const drift = 1 + 0.12 * Math.sin(atMs / (37 * minuteMs) + service.port);
  return {
    ...blip,
    rate: factor(service.rate) * daily * (isClientGone ? 0 : 1),
    times: factor(service.speed) * drift,
    addMs: (blip.addMs ?? 0) + noiseMs,
  };
}

async function lifecycle(world: HealthWorld, service: Service, atMs: number, agent: SignalRows | undefined): Promise<void> {
  const isIn = (momentMs: number): boolean => atMs - windowMs < momentMs && momentMs <= atMs;
  const isClient = service.endsMs !== null;
  if (isIn(service.startsMs + 1)) await world.register(service.name, service.agentId, isClient ? 0 : service.port);
  for (const { fromMs } of service.quiet)
    if (isIn(fromMs))
      agent?.event?.push(
        world.event("service-restarted", service.speed.some((step) => step.atMs === fromMs) ? "info" : "warning", service.name),
      );
  if (service.movesMs !== null && isIn(service.movesMs)) {
    await world.register(service.name, service.agentId, service.port, false);
    await world.register(service.name, service.agentId, service.port + 1_000);
    agent?.event?.push(world.event("service-exited", "error", service.name));
    for (const route of service.routes) route.port = service.port + 1_000;
  }
  if (service.endsMs !== null && isIn(service.endsMs)) {
    await world.register(service.name, service.agentId, 0, false);
    agent?.event?.push(world.event("service-exited", "error", service.name));
  }
}
