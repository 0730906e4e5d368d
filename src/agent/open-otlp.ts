/** Puts the parts that take OTLP together: servers, receiver, decode workers, sampling and forwarding. */

import { ByteBudget } from "../base/byte-budget.ts";
import type { Clock } from "../base/clock.ts";
import { CoralError } from "../base/errors.ts";
import type { Logger } from "../base/log.ts";
import { ResourceStack } from "../base/resource-stack.ts";
import { defaultOtlpPorts, formatListenAddress, type ListenAddress, type OtlpConfig } from "../config/index.ts";
import { createOtlpClient, type OtlpListen, type OtlpServers, startOtlpServers } from "../mesh/index.ts";
import { DecodePool, Forwarder, type MetricPoint, OtlpReceiver, SamplingBudget } from "../otlp/index.ts";
import type { AgentSegments } from "../store/index.ts";
import type { AgentOtlpStatus } from "../tools/index.ts";

export interface OtlpOptions {
  config: OtlpConfig;
  clock: Clock;
  log: Logger;
}

export interface OtlpStore {
  segments: () => Pick<AgentSegments, "append"> | undefined;
  /** Resolves when the points are durable. */
  storeMetrics?: (points: readonly MetricPoint[]) => Promise<void>;
}

/** Ports after a default one that are tried when it is taken. */
const portSearch = 20;
const streamsPerConnection = 128;
const bodyTimeoutMs = 30_000;
const idleTimeoutMs = 5 * 60_000;

/** Opened before the store, which needs it to seal segments; listens once `start` has the store. */
export class Otlp implements AsyncDisposable {
  readonly #options: OtlpOptions;
  readonly #stack = new ResourceStack();
  readonly #sampling: SamplingBudget;
  readonly #budget: ByteBudget;
  readonly pool: DecodePool;
  #receiver: OtlpReceiver | undefined;
  #servers: OtlpServers | undefined;
  #forwarder: Forwarder | undefined;
  #problem: string | null = null;

  constructor(options: OtlpOptions) {
    const { config, clock, log } = options;
    this.#options = options;
    this.#sampling = new SamplingBudget(config.sampling);
    this.#budget = new ByteBudget(config.maxInFlightBytes);
    this.pool = new DecodePool({ workers: config.workers, sampling: this.#sampling, clock, log });
  }

  /** Listens, unless it is switched off. A port that cannot be had is told in the status: the agent goes on without. */
  async start(store: OtlpStore): Promise<void> {
    const { config, clock, log } = this.#options;
    if (!config.enabled) return;
    this.#openForwarder();
    const { storeMetrics } = store;
    const receiver = new OtlpReceiver({
      segments: { append: (signal, record) => requireSegments(store).append(signal, record) },
      pool: this.pool,
      ...(storeMetrics && { storeMetrics }),
      ...(this.#forwarder && { forward: (request) => this.#forwarder?.offer(request) }),
      maxBodyBytes: config.maxBodyBytes,
      budget: this.#budget,
      clock,
      log,
    });
    this.#receiver = receiver;
    try {
      const servers = await startOtlpServers({
        grpc: config.grpc && withSearch(config.grpc, defaultOtlpPorts.grpc),
        http: config.http && withSearch(config.http, defaultOtlpPorts.http),
        handler: (request) => receiver.accept(request),
        limits: {
          maxBodyBytes: config.maxBodyBytes,
          maxConnections: config.maxConnections,
          maxStreams: streamsPerConnection,
          bodyTimeoutMs,
          idleTimeoutMs,
        },
        budget: this.#budget,
        log,
      });
      this.#servers = this.#stack.use(servers);
      log.info("OTLP is taken", { ...this.#addresses() });
    } catch (error) {
      this.#problem = CoralError.from(error).message;
      log.error(`OTLP is not taken: ${this.#problem}`);
    }
  }

  /** Undefined while it is switched off. */
  status(): AgentOtlpStatus {
    const { config } = this.#options;
    const { grpc, http } = this.#addresses();
    const counts = this.#receiver?.counts;
    const { workers, restarts, sampledOut } = this.pool.stats;
    return {
      state: !config.enabled ? "off" : this.#problem === null ? "on" : "unavailable",
      reason: config.enabled ? this.#problem : "otlp.enabled is false in the config",
      grpc,
      http,
      received: counts ? Object.entries(counts).map(([signal, each]) => ({ signal, ...each })) : [],
      inFlightBytes: this.#budget.usedBytes,
      workers,
      workerRestarts: restarts,
      sampling: { share: this.#sampling.share, droppedSpans: sampledOut },
      forward: this.#forwarder && config.forward ? { endpoint: config.forward.endpoint, ...this.#forwarder.stats } : null,
    };
  }

  /** Closes the doors; what was taken is still decoded. */
  async stop(): Promise<void> {
    await this.#stack[Symbol.asyncDispose]();
  }

  /** After the store was closed, which has segments to seal. */
  async [Symbol.asyncDispose](): Promise<void> {
    await this.stop();
    await this.pool[Symbol.asyncDispose]();
  }

  #openForwarder(): void {
    const { config, clock, log } = this.#options;
    if (config.forward === undefined) return;
    const { endpoint, headers, maxQueueBytes } = config.forward;
    const client = createOtlpClient({ url: endpoint, headers });
    this.#stack.defer(async () => client[Symbol.dispose]());
    this.#forwarder = this.#stack.use(
      new Forwarder({ send: (request, signal) => client.send(request, signal), maxQueueBytes, clock, log }),
    );
  }

  #addresses(): { grpc: string | null; http: string | null } {
    const text = (server: ListenAddress | undefined): string | null => (server ? formatListenAddress(server) : null);
    return { grpc: text(this.#servers?.grpc), http: text(this.#servers?.http) };
  }
}

/** A default port may move when somebody has it; one that was chosen may not. */
function withSearch(address: ListenAddress, defaultPort: number): OtlpListen {
  return { ...address, portSearch: address.port === defaultPort ? portSearch : 0 };
}

function requireSegments({ segments }: OtlpStore): Pick<AgentSegments, "append"> {
  const found = segments();
  if (found === undefined) throw new CoralError({ code: "unavailable", message: "Cannot take rows: the store has no segments" });
  return found;
}
