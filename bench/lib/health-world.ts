/** A colony's store that simulated agents fill with requests, host samples and events, and the health that the real tool computes. */

import { bucketOf, fineLayout, sparse } from "../../src/base/latency-histogram.ts";
import { BaselineCache, querySummary } from "../../src/store/queries/index.ts";
import { openStoredHosts, type SignalRows, type StoredHosts } from "../../src/store/queries/stored-hosts.fixture.ts";
import { colonyTools } from "../../src/tools/colony-tools.ts";
import { findTool } from "../../src/tools/contract/tool-list.ts";
import { agentOf, colonyOf } from "../../src/tools/sample-colony.fixture.ts";
import type { ServiceSummary, SummaryResult } from "../../src/tools/schemas/summary.ts";

export const windowMs = 10_000;

/** mulberry32: the same numbers on every machine. */
export function randomOf(seed: number): () => number {
  let state = seed >>> 0;
  return () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
}

/** Random numbers from a seed, so that a run can be repeated. */
export class Dice {
  readonly next: () => number;
  constructor(seed: number) {
    this.next = randomOf(seed);
  }
  between(least: number, most: number): number {
    return least + this.next() * (most - least);
  }
  normal(): number {
    return Math.sqrt(-2 * Math.log(1 - this.next())) * Math.cos(2 * Math.PI * this.next());
  }
  /** A number of events with this mean. */
  poisson(mean: number): number {
    if (mean > 50) return Math.max(0, Math.round(mean + Math.sqrt(mean) * this.normal()));
    let [count, product] = [0, this.next()];
    for (const limit = Math.exp(-mean); product > limit; count++) product *= this.next();
    return count;
  }
}

/** One kind of request: rate and usual duration. */
export interface SimulatedRoute {
  service: string;
  agentId: string;
  role: "server" | "client";
  protocol: string;
  method: string;
  route: string;
  peer: string | null;
  port: number;
  perSecond: number;
  medianMs: number;
  /** Of the logarithm of durations. */
  spread: number;
  errorRatio: number;
}

/** Changes in a window. */
export interface Condition {
  rate?: number;
  times?: number;
  addMs?: number;
  /** Part of the requests that `times` and `addMs` apply to. */
  part?: number;
  errorRatio?: number;
  queueMs?: number;
}

export type RedRow = NonNullable<SignalRows["red"]>[number];

/** The rows of one window, which ends at `atMs`. */
export function rowsOf(route: SimulatedRoute, atMs: number, condition: Condition, dice: Dice): RedRow[] {
  const { rate = 1, times = 1, addMs = 0, part = 1, errorRatio = route.errorRatio, queueMs = 0 } = condition;
  const requests = dice.poisson((route.perSecond * rate * windowMs) / 1_000);
  const [good, bad] = [newCounts(), newCounts()];
  const jitter = Math.exp(0.06 * dice.normal());
  for (let index = 0; index < requests; index++) {
    let ms = route.medianMs * jitter * Math.exp(route.spread * dice.normal());
    if (dice.next() < part) ms = ms * times + addMs * (0.7 + 0.6 * dice.next());
    const into = dice.next() < errorRatio ? bad : good;
    into.requests++;
    into.us += ms * 1_000;
    into.counts[bucketOf(fineLayout, ms * 1e6)]! += 1;
  }
  return [rowOf(route, atMs, good, false, queueMs), rowOf(route, atMs, bad, true, queueMs)].filter((row) => (row.requests ?? 0) > 0);
}

interface Counts {
  requests: number;
  us: number;
  counts: number[];
}

const newCounts = (): Counts => ({ requests: 0, us: 0, counts: new Array<number>(fineLayout.bucketCount).fill(0) });

function rowOf(route: SimulatedRoute, atMs: number, { requests, us, counts }: Counts, isError: boolean, queueMs: number): RedRow {
  const { lo, counts: durations } = sparse(counts);
  return {
    atMs,
    service: route.service,
    role: route.role,
    protocol: route.protocol,
    server_port: route.port,
    peer_address: "127.0.0.1",
    peer: route.peer,
    method: route.method,
    route: route.route,
    status: isError ? "500" : "200",
    is_error: isError,
    window_ms: windowMs,
    requests,
    duration_us: Math.round(us),
    queue_us: Math.round(queueMs * 1_000 * requests),
    queue_samples: queueMs > 0 ? requests : 0,
    duration_lo: lo,
    duration_counts: durations,
    queue_counts: [],
    first_byte_counts: [],
  };
}

/** Simulated services with a colony's store, on a simulated clock. */
export class HealthWorld implements AsyncDisposable {
  nowMs: number;
  #hosts: StoredHosts | undefined;
  readonly #memory = new BaselineCache();
  readonly #agents: string[];

  constructor(nowMs: number, agents: string[]) {
    this.nowMs = nowMs;
    this.#agents = agents;
  }

  async open(): Promise<this> {
    const clock = { wallMs: () => this.nowMs, monotonicMs: () => this.nowMs };
    this.#hosts = await openStoredHosts(clock, { hasDerived: true });
    return this;
  }

  get store(): StoredHosts["store"] {
    if (!this.#hosts) throw new Error("The world is not open");
    return this.#hosts.store;
  }

  /** Rows as one pull of each agent. */
  async add(rows: ReadonlyMap<string, SignalRows>): Promise<void> {
    const filled = (one: SignalRows): SignalRows => Object.fromEntries(Object.entries(one).filter(([, list]) => list.length > 0));
    await this.#hosts?.addAll([...rows].map(([agentId, one]) => ({ agentId, rows: filled(one) })));
  }

  async run(sql: string): Promise<void> {
    await this.store.write((transaction) => transaction.run(sql));
  }

  async register(service: string, agentId: string, port: number, isPresent = true, health: string | null = null): Promise<void> {
    const at = `make_timestamp(${this.nowMs * 1_000})`;
    const detail = health === "unhealthy" ? "'status 503'" : "NULL";
    await this.run(`DELETE FROM net.service_registry WHERE service = '${service}' AND agent_id = '${agentId}' AND port = ${port}`);
    await this.run(
      `INSERT INTO net.service_registry (service, agent_id, protocol, port, method, named_by, confidence, status, managed, promoted, present, instances, pid, start_ticks,
         health, health_detail, first_seen, last_seen, known_since)
       VALUES ('${service}', '${agentId}', 'tcp', ${port}, 'listening_socket', 'script', 1, 'discovered', false, false, ${isPresent}, 1, 1, 1,
         ${health === null ? "NULL" : `'${health}'`}, ${detail}, ${at}, ${at}, ${at})`,
    );
  }

  /** An event as agents report it. */
  event(kind: string, severity: string, service: string): NonNullable<SignalRows["event"]>[number] {
    return { atMs: this.nowMs, kind, severity, service, message: `${service}: ${kind}`, details: "{}" };
  }

  /** The current result of `coral query summary`: all services, worst first. */
  async judge(): Promise<ServiceSummary[]> {
    const backend = colonyOf({
      agents: async () => this.#agents.map((agentId) => agentOf(agentId)),
      summary: async (request) => {
        const facts = await querySummary(this.store, { ...request, nowMs: this.nowMs }, this.#memory);
        return { ...facts, nowMs: this.nowMs, aliases: new Map() };
      },
    });
    const tool = findTool(colonyTools, "coral_query_summary", "read");
    const answer = (await tool.call(backend, { limit: 1_000 }, { signal: new AbortController().signal })) as SummaryResult;
    return answer.services;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#hosts?.[Symbol.asyncDispose]();
  }
}
