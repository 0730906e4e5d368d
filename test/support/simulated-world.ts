/**
 * The real stores of an agent and a colony, with the real receiver and decoder between them and a fake clock: a day passes in seconds.
 * Either end can be closed and reopened. Pulls use the real service definitions.
 */

import { mkdirSync } from "node:fs";
import { createRouterTransport } from "@connectrpc/connect";
import { addAgentService } from "../../src/agent/link/agent-service.ts";
import { ByteBudget } from "../../src/base/byte-budget.ts";
import { silentLogger } from "../../src/base/log.ts";
import { createColonyMetrics } from "../../src/colony/core/colony-metrics.ts";
import { SegmentPuller } from "../../src/colony/pull/segment-puller.ts";
import { MetricIntake, type OtlpRequest } from "../../src/otlp/index.ts";
import { DecodePool } from "../../src/otlp/intake/decode-pool.ts";
import { bundleWorker } from "../../src/otlp/intake/receiver.fixture.ts";
import { OtlpReceiver } from "../../src/otlp/intake/receiver.ts";
import { SamplingBudget, type SamplingBudgetOptions } from "../../src/otlp/intake/sampling-budget.ts";
import { type AgentStore, openAgentStore } from "../../src/store/agent/index.ts";
import { type ColonyStore, openColonyStore } from "../../src/store/colony/index.ts";
import { type Engine } from "../../src/store/engine/index.ts";
import { type AgentSegments, type ColonySegments } from "../../src/store/segments/index.ts";
import { derivedSignals, segmentSignals, signals } from "../../src/store/signals/index.ts";
import { TestClock, testEngine } from "../../src/store/store.fixture.ts";
import { type AgentPull } from "../../src/store/tables/index.ts";
import { coralErrorsOnWire } from "../../src/transport/http/rpc-errors.ts";
import type { Tunnel } from "../../src/transport/index.ts";

const mebibyte = 1024 ** 2;
const agentId = "truth-1";

export class SimulatedWorld implements AsyncDisposable {
  readonly clock = new TestClock();
  readonly #path: string;
  readonly #engine: Engine;
  readonly #pool: DecodePool;
  #agent!: AgentStore;
  #receiver!: OtlpReceiver;
  colony!: ColonyStore;

  private constructor(path: string, engine: Engine, workerFile: string, sampling: SamplingBudgetOptions) {
    this.#path = path;
    this.#engine = engine;
    this.#pool = new DecodePool({ file: workerFile, sampling: new SamplingBudget(sampling), clock: this.clock, log: silentLogger });
  }

  static async open(path: string, sampling: SamplingBudgetOptions = { bytesPerSecond: undefined, slowMs: 500 }): Promise<SimulatedWorld> {
    mkdirSync(`${path}/colony`);
    const world = new SimulatedWorld(path, await testEngine(path), await bundleWorker(path), sampling);
    await world.openAgent();
    await world.openColony();
    return world;
  }

  get agent(): AgentStore {
    return this.#agent;
  }

  get #kept(): ColonySegments {
    return this.colony.segments as ColonySegments;
  }

  async openAgent(): Promise<void> {
    const { clock } = this;
    this.#agent = await openAgentStore(this.#engine, {
      file: `${this.#path}/agent.duckdb`,
      signals,
      maxBytes: 256 * mebibyte,
      clock,
      log: silentLogger,
      segments: { signals: segmentSignals, directory: this.#path, maxBytes: 256 * mebibyte, seal: this.#pool.seal },
    });
    const metrics = new MetricIntake({ store: this.#agent, clock });
    this.#receiver = new OtlpReceiver({
      segments: this.#agent.segments as AgentSegments,
      pool: this.#pool,
      storeMetrics: (points) => metrics.store(points),
      maxBodyBytes: 16 * mebibyte,
      budget: new ByteBudget(64 * mebibyte),
      clock,
      log: silentLogger,
    });
  }

  async openColony(): Promise<void> {
    this.colony = await openColonyStore(this.#engine, {
      file: `${this.#path}/colony/colony.duckdb`,
      signals: [...signals, ...derivedSignals],
      maxBytes: 1_024 * mebibyte,
      clock: this.clock,
      log: silentLogger,
      segments: { signals: segmentSignals, directory: `${this.#path}/colony`, maxBytes: 1_024 * mebibyte },
    });
  }

  /** The daemons' periodic maintenance. */
  async maintain(): Promise<void> {
    await this.#agent.prune();
    await this.#agent.segments?.maintain();
    await this.colony.rollup();
    await this.colony.prune();
    await this.#kept.maintain();
  }

  async restartAgent(): Promise<void> {
    await this.#agent.close();
    await this.openAgent();
  }

  async restartColony(): Promise<void> {
    await this.colony.close();
    await this.openColony();
  }

  /** Sends like an exporter. Throws unless every row was accepted. */
  async send(signal: OtlpRequest["signal"], body: Uint8Array): Promise<void> {
    const reply = await this.#receiver.accept({ signal, format: "protobuf", encoding: "identity", body });
    if (reply.kind !== "accepted" || reply.rejected > 0) throw new Error(`not accepted: ${JSON.stringify(reply)}`);
  }

  /** Pulls everything that the agent has. `again` applies each response twice, as after a crash between commit and checkpoint. */
  async pull(again = false): Promise<void> {
    const { epoch } = this.#agent;
    for (let isMore = true; isMore; ) {
      const { afterSeq } = this.colony.checkpoints(agentId, epoch);
      const slices = await Promise.all(
        signals.map(({ name }) => this.#agent.readAfter(name, afterSeq.get(name) ?? 0, { maxBytes: 8 * mebibyte, maxRows: 100_000 })),
      );
      const pull: AgentPull = { agentId, epoch, slices, losses: this.#agent.losses() };
      for (const outcome of await this.colony.applyPulls(again ? [pull, pull] : [pull])) if (outcome.error) throw outcome.error;
      isMore = slices.some(({ batch, nextSeq }) => batch !== undefined && batch.lastSeq + 1 < nextSeq);
    }
    await this.#pullSegments();
    await this.colony.derive();
  }

  async #pullSegments(): Promise<void> {
    const sent = this.#agent.segments as AgentSegments;
    await sent.flush();
    const transport = createRouterTransport(
      (router) => addAgentService(router, { agentId, sessionId: "s", store: this.#agent, clock: this.clock }),
      { router: { interceptors: [coralErrorsOnWire] } },
    );
    const puller = new SegmentPuller({
      segments: this.#kept,
      signals: segmentSignals.map(({ name }) => name),
      settings: () => ({ intervalMs: 1, timeoutMs: 10_000 }),
      metrics: createColonyMetrics({ agentsByHealth: () => ({}), storeBytes: () => Promise.resolve(0) }),
      log: silentLogger,
    });
    const stop = new AbortController();
    const running = puller.run({ agentId, transport } as Pick<Tunnel, "agentId" | "transport"> as Tunnel, this.#agent.epoch, stop.signal);
    const isDone = (): boolean => {
      const reached = this.#kept.checkpoints(agentId, this.#agent.epoch);
      return segmentSignals.every(({ name }) => sent.listAfter(name, reached.get(name) ?? 0, 1).entries.length === 0);
    };
    for (const startMs = Date.now(); !isDone() && Date.now() - startMs < 120_000; ) await new Promise((resolve) => setTimeout(resolve, 2));
    stop.abort();
    await running;
    if (!isDone()) throw new Error("segments did not arrive");
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#agent.close();
    await this.colony.close();
    await this.#pool[Symbol.asyncDispose]();
    await this.#engine.close();
  }
}
