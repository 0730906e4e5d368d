/**
 * An agent without a host and without a database: it joins, registers, dials and serves pulls with the product's own code, and keeps its rows
 * in memory until the colony has stored them.
 */

import { randomUUID } from "node:crypto";
import type { ExecuteService } from "../../src/agent/commands/execute-service.ts";
import { addAgentService } from "../../src/agent/link/agent-service.ts";
import { systemClock } from "../../src/base/clock.ts";
import { silentLogger } from "../../src/base/log.ts";
import type { AgentStore } from "../../src/store/agent/index.ts";
import { batchFromRows } from "../../src/store/columns/column-batch.ts";
import { encodeBatch } from "../../src/store/columns/column-codec.ts";
import type { Columns, RowOf, SampleTime, Signal } from "../../src/store/signals/index.ts";
import type { SignalHead, SignalSlice } from "../../src/store/tables/index.ts";
import {
  type DialledTunnel,
  dialTunnel,
  generateKey,
  type Identity,
  joinColony,
  registerAgent,
  type Token,
} from "../../src/transport/index.ts";
import { hostSample } from "./host-samples.ts";

/** Per signal, one column whose sum is compared at the end. */
export const checkedColumns: Readonly<Record<string, string>> = {
  host: "tcp_established",
  host_cpu: "core",
  host_mount: "used_bytes",
  host_disk: "writes_per_s",
  host_interface: "rx_drops",
  host_cgroup: "mem_used_bytes",
  host_process: "rss_bytes",
  service_instance: "port",
};

/** Totals of one signal that an agent has produced. */
export interface Made {
  rows: number;
  sum: number;
  sumMonoMs: number;
}

interface SignalLog extends Made {
  signal: Signal;
  /** Sequence of the first row kept. */
  oldestSeq: number;
  kept: SampleTime[];
}

/** The part of an AgentStore that serves pulls. */
class MemoryStore implements Pick<AgentStore, "epoch" | "heads" | "readAfter" | "losses"> {
  readonly epoch = randomUUID();
  readonly #logs = new Map<string, SignalLog>();

  add(signal: Signal, rows: readonly SampleTime[]): void {
    const log = this.#logs.get(signal.name) ?? { signal, oldestSeq: 1, kept: [], rows: 0, sum: 0, sumMonoMs: 0 };
    const column = checkedColumns[signal.name] ?? "";
    for (const row of rows) {
      log.sum += (row as unknown as Record<string, number>)[column] ?? Number.NaN;
      log.sumMonoMs += row.mono_ms;
    }
    log.rows += rows.length;
    log.kept.push(...rows);
    this.#logs.set(signal.name, log);
  }

  heads(): ReadonlyMap<string, SignalHead> {
    return new Map([...this.#logs].map(([name, log]) => [name, headOf(log)]));
  }

  readAfter(name: string, afterSeq: number): Promise<SignalSlice> {
    const log = this.#logs.get(name);
    if (!log) return Promise.reject(new Error(`No signal "${name}"`));
    // Rows up to `afterSeq` are stored at the colony.
    log.kept.splice(0, Math.max(0, afterSeq + 1 - log.oldestSeq));
    log.oldestSeq = Math.max(log.oldestSeq, afterSeq + 1);
    const batch = encodeBatch(batchFromRows(log.signal, log.kept as RowOf<Columns>[]), log.oldestSeq);
    return Promise.resolve({ signal: name, ...headOf(log), batch: { ...batch, firstMonoMs: log.kept[0]?.mono_ms ?? 0 } });
  }

  losses(): [] {
    return [];
  }

  made(): Record<string, Made> {
    return Object.fromEntries([...this.#logs].map(([name, { rows, sum, sumMonoMs }]) => [name, { rows, sum, sumMonoMs }]));
  }
}

function headOf({ oldestSeq, rows }: SignalLog): SignalHead {
  return { oldestSeq, nextSeq: rows + 1 };
}

/** Commands that succeed immediately, without a process. */
export const trueAtOnce: ExecuteService = {
  running: 0,
  execute: async function* (requests) {
    const { done } = await requests[Symbol.asyncIterator]().next();
    if (done) throw new Error("No command order received");
    yield { event: { case: "started", value: { pid: 1, programs: ["true"], where: "host" } } };
    yield { event: { case: "ended", value: { reason: "exited" } } };
  },
  decideApproval: () => Promise.reject(new Error("Not supported by the simulated agent")),
  readRecording: async function* () {
    yield await Promise.reject<never>(new Error("Not supported by the simulated agent"));
  },
  [Symbol.asyncDispose]: () => Promise.resolve(),
};

/** Joins a colony and serves pulls like an agent, but keeps its rows in memory and observes nothing. */
export class SimulatedAgent {
  readonly agentId: string;
  readonly #number: number;
  readonly #store = new MemoryStore();
  #samples = 0;

  constructor(number: number) {
    this.#number = number;
    this.agentId = `sim-${String(number).padStart(4, "0")}`;
  }

  /** Join, Register and the tunnel, each over its own TLS connection. */
  async connect(token: Token, signal: AbortSignal, commands?: ExecuteService): Promise<DialledTunnel> {
    const { agentId } = this;
    const { colonyId } = token;
    const key = generateKey();
    const { certPem, caPem, endpoint } = await joinColony({ token, agentId, key, signal, timeoutMs: 30_000 });
    const nowMs = Date.now();
    const lifeMs = 86_400_000;
    const identity: Identity = {
      agentId,
      colonyId,
      keyPem: key.keyPem,
      certPem,
      caPem,
      notBeforeMs: nowMs,
      notAfterMs: nowMs + lifeMs,
      renewAtMs: nowMs + lifeMs,
    };
    const host = {
      hostname: `host-${this.#number}`,
      machineId: agentId.padEnd(32, "0"),
      bootId: randomUUID(),
      os: "Debian GNU/Linux 13",
      kernel: "6.12.0",
      arch: "x64",
    };
    const description = {
      protocolVersion: 2,
      version: "0.1.0",
      host,
      epoch: this.#store.epoch,
      labels: { zone: "bench" },
      capabilities: [],
    };
    const request = { ...description, colonyId, agentId, wallMs: BigInt(nowMs) };
    const { sessionId } = await registerAgent({ endpoint, identity, request, signal, timeoutMs: 30_000 });
    return await dialTunnel({
      endpoint,
      identity,
      colonyId,
      routes: (router) =>
        addAgentService(router, { agentId, sessionId, store: this.#store, clock: systemClock, ...(commands ? { commands } : {}) }),
      signal,
      log: silentLogger,
      timeoutMs: 30_000,
    });
  }

  /** One host sample, as an agent makes it every 15 s. */
  sample(): number {
    const time = { at: Math.round(systemClock.wallMs() * 1_000), mono_ms: Math.round(systemClock.monotonicMs()) };
    const sample = hostSample(this.#number, this.#samples++, time);
    let count = 0;
    for (const { signal, rows } of sample) {
      this.#store.add(signal, rows);
      count += rows.length;
    }
    return count;
  }

  made(): Record<string, Made> {
    return this.#store.made();
  }
}
