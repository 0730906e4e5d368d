/** The OTLP receiver of a daemon: servers, receiver, decode workers, sampling and forwarding. An agent has one, a colony may. */

import { createHash, timingSafeEqual } from "node:crypto";
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { ByteBudget } from "../../base/byte-budget.ts";
import type { Clock } from "../../base/clock.ts";
import { CoralError } from "../../base/errors.ts";
import type { Logger } from "../../base/log.ts";
import { ResourceStack } from "../../base/resource-stack.ts";
import type { AgentSegments } from "../../store/segments/index.ts";
import { DecodePool, type DecodePoolOptions } from "./decode-pool.ts";
import { Forwarder, type ForwardOutcome, type ForwardStats } from "./forward.ts";
import { LoadWatch } from "./load-watch.ts";
import { OtlpReceiver, type OtlpReceiverOptions, type OtlpReply, type OtlpRequest, type SignalCounts } from "./receiver.ts";
import { RequestJournal } from "./request-journal.ts";
import { SamplingBudget } from "./sampling-budget.ts";
import { unsealedRequests } from "./unsealed-requests.ts";

interface Address {
  host: string;
  port: number;
}

/** The `otlp` section of the config, resolved. */
export interface OtlpIntakeConfig {
  enabled: boolean;
  /** Undefined: this listener is disabled. */
  grpc: Address | undefined;
  http: Address | undefined;
  /** File with the token that senders must send; undefined: no token required. */
  tokenFile: string | undefined;
  maxBodyBytes: number;
  maxInFlightBytes: number;
  maxConnections: number;
  workers: number;
  sampling: { bytesPerSecond: number | undefined; slowMs: number };
  forward: { endpoint: string; headers: Record<string, string>; maxQueueBytes: number } | undefined;
}

/** How the intake listens and forwards; see servers/. */
export interface OtlpNetwork {
  listen(options: {
    grpc: (Address & { portSearch: number }) | undefined;
    http: (Address & { portSearch: number }) | undefined;
    handler: (request: OtlpRequest) => Promise<OtlpReply>;
    authorize?: (header: string | undefined) => boolean;
    limits: { maxBodyBytes: number; maxConnections: number; maxStreams: number; bodyTimeoutMs: number; idleTimeoutMs: number };
    budget: ByteBudget;
    log: Logger;
  }): Promise<AsyncDisposable & { grpc: Address | undefined; http: Address | undefined }>;
  connect(options: { url: string; headers: Record<string, string> }): Disposable & {
    send(request: OtlpRequest, signal: AbortSignal): Promise<ForwardOutcome>;
  };
}

export interface OtlpIntakeOptions {
  config: OtlpIntakeConfig;
  network: OtlpNetwork;
  /** Receives the patterns of log records. Absent: they are only stored with the records. */
  patterns?: Pick<DecodePoolOptions, "onPatterns" | "knownTemplates">;
  /** The store's directory. Keys of recent requests are kept there, so that a request repeated across a restart is stored once. Absent: a restart forgets them. */
  directory?: string;
  /** Called when the load becomes high enough to trade memory for speed, and when it drops again. */
  onLoad?: (isBusy: boolean) => void;
  clock: Clock;
  log: Logger;
}

/** Where accepted requests are stored. */
export interface OtlpStore {
  /** Undefined while the store is unavailable. */
  segments: () => Pick<AgentSegments, "append"> | undefined;
  /** Resolves when the points are durable. Absent: metrics are rejected. */
  storeMetrics?: NonNullable<OtlpReceiverOptions["storeMetrics"]>;
}

/** Counts are since the start. */
export interface OtlpStatus {
  state: "on" | "off" | "unavailable";
  /** Why the receiver is not running; null while it is. */
  reason: string | null;
  /** host:port; null when disabled. */
  grpc: string | null;
  http: string | null;
  received: ({ signal: string } & SignalCounts)[];
  inFlightBytes: number;
  workers: number;
  workerRestarts: number;
  sampling: { share: number; droppedSpans: number };
  forward: ({ endpoint: string } & ForwardStats) | null;
}

const defaultPorts = { grpc: 4_317, http: 4_318 } as const;
/** How many following ports to try if a default port is in use. */
const portSearch = 20;
/** Concurrent gRPC calls of one connection (HTTP/2 MAX_CONCURRENT_STREAMS). Exporters have a few at most. */
const streamsPerConnection = 128;
/** A body must arrive within this time, because it occupies memory of the budget until then. */
const bodyTimeoutMs = 30_000;
/** A connection without requests for this long is closed; exporters reconnect. */
const idleTimeoutMs = 5 * 60_000;

/** Created before the store, which needs its workers to seal segments. Listens after `start`, which passes the store. */
export class OtlpIntake implements AsyncDisposable {
  readonly #options: OtlpIntakeOptions;
  readonly #stack = new ResourceStack();
  readonly #sampling: SamplingBudget;
  readonly #budget: ByteBudget;
  readonly #journal: RequestJournal | undefined;
  readonly pool: DecodePool;
  #receiver: OtlpReceiver | undefined;
  #servers: { grpc: Address | undefined; http: Address | undefined } | undefined;
  #forwarder: Forwarder | undefined;
  #problem: string | null = null;

  constructor(options: OtlpIntakeOptions) {
    const { config, clock, log } = options;
    this.#options = options;
    this.#sampling = new SamplingBudget(config.sampling);
    this.#budget = new ByteBudget(config.maxInFlightBytes);
    this.#journal = config.enabled && options.directory !== undefined ? openJournal(options.directory, options) : undefined;
    if (this.#journal) this.#stack.use(this.#journal);
    this.pool = new DecodePool({ workers: config.workers, sampling: this.#sampling, ...options.patterns, clock, log });
  }

  /** Starts listening, unless disabled. A port that is not available is reported in the status, and the daemon runs without it. */
  async start(store: OtlpStore): Promise<void> {
    const { config, network, log } = this.#options;
    if (!config.enabled) return;
    try {
      this.#openForwarder();
      const receiver = this.#openReceiver(store);
      const authorize = config.tokenFile === undefined ? undefined : await readToken(config.tokenFile);
      if (authorize === undefined) this.#warnIfOpen();
      const servers = await network.listen({
        grpc: config.grpc && withSearch(config.grpc, defaultPorts.grpc),
        http: config.http && withSearch(config.http, defaultPorts.http),
        handler: (request) => receiver.accept(request),
        ...(authorize && { authorize }),
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
      log.info("OTLP receiver listening", { ...this.#addresses() });
    } catch (error) {
      this.#problem = CoralError.from(error).message;
      log.error(`OTLP receiver not started: ${this.#problem}`);
    }
  }

  status(): OtlpStatus {
    const { config } = this.#options;
    const counts = this.#receiver?.counts;
    const { workers, restarts, sampledOut } = this.pool.stats;
    return {
      state: !config.enabled ? "off" : this.#problem === null ? "on" : "unavailable",
      reason: config.enabled ? this.#problem : "otlp.enabled is false in the config",
      ...this.#addresses(),
      received: counts ? Object.entries(counts).map(([signal, each]) => ({ signal, ...each })) : [],
      inFlightBytes: this.#budget.usedBytes,
      workers,
      workerRestarts: restarts,
      sampling: { share: this.#sampling.share, droppedSpans: sampledOut },
      forward: this.#forwarder && config.forward ? { endpoint: config.forward.endpoint, ...this.#forwarder.stats } : null,
    };
  }

  /** Stops listening; accepted requests can still be decoded. */
  async stop(): Promise<void> {
    await this.#stack[Symbol.asyncDispose]();
  }

  /** Call after the store was closed, because closing it seals segments. */
  async [Symbol.asyncDispose](): Promise<void> {
    await this.stop();
    await this.pool[Symbol.asyncDispose]();
  }

  #warnIfOpen(): void {
    const { config, log } = this.#options;
    for (const address of [config.grpc, config.http]) {
      if (address && !/^(?:127\.|::1$|localhost$)/.test(address.host)) {
        log.warn(`OTLP receiver on ${address.host}:${address.port} accepts requests without a token; set otlp.token_file to require one`);
      }
    }
  }

  #openForwarder(): void {
    const { config, network, clock, log } = this.#options;
    if (config.forward === undefined) return;
    const { endpoint, headers, maxQueueBytes } = config.forward;
    const client = network.connect({ url: endpoint, headers });
    this.#stack.defer(async () => client[Symbol.dispose]());
    this.#forwarder = this.#stack.use(
      new Forwarder({ send: (request, signal) => client.send(request, signal), maxQueueBytes, clock, log }),
    );
  }

  #openReceiver({ segments, storeMetrics }: OtlpStore): OtlpReceiver {
    const { config, clock, log } = this.#options;
    const forwarder = this.#forwarder;
    const { onLoad } = this.#options;
    const load = onLoad && new LoadWatch({ clock, onChange: onLoad });
    if (load) this.#stack.defer(async () => load[Symbol.dispose]());
    this.#receiver = new OtlpReceiver({
      segments: {
        append: (signal, record) => {
          const found = segments();
          if (found === undefined) throw new CoralError({ code: "unavailable", message: "Cannot store rows: the store is unavailable" });
          return found.append(signal, record);
        },
      },
      pool: this.pool,
      ...(storeMetrics && { storeMetrics }),
      ...(forwarder && { forward: (request) => forwarder.offer(request) }),
      ...(load && { onRows: (rows) => load.count(rows) }),
      maxBodyBytes: config.maxBodyBytes,
      budget: this.#budget,
      journal: this.#journal,
      clock,
      log,
    });
    return this.#receiver;
  }

  #addresses(): { grpc: string | null; http: string | null } {
    const text = (address: Address | undefined): string | null =>
      address ? `${address.host.includes(":") ? `[${address.host}]` : address.host}:${address.port}` : null;
    return { grpc: text(this.#servers?.grpc), http: text(this.#servers?.http) };
  }
}

function openJournal(directory: string, { clock, log }: OtlpIntakeOptions): RequestJournal {
  const file = join(directory, "otlp-requests.bin");
  return new RequestJournal({ file, unsealed: unsealedRequests(directory), nowMs: () => clock.wallMs(), log });
}

/** Compares in constant time. */
async function readToken(file: string): Promise<(header: string | undefined) => boolean> {
  let token: string;
  try {
    token = (await readFile(file, "utf8")).trim();
  } catch (error) {
    throw new CoralError({
      code: "invalid",
      message: `Cannot read the token of otlp.token_file "${file}": ${CoralError.from(error).message}`,
      cause: error,
    });
  }
  if (token === "") throw new CoralError({ code: "invalid", message: `Cannot use otlp.token_file "${file}": it is empty` });
  const digest = (text: string): Buffer => createHash("sha256").update(text).digest();
  const expected = digest(`Bearer ${token}`);
  return (header) => timingSafeEqual(digest(header ?? ""), expected);
}

/** A default port that is in use may be replaced by the next one; a configured port may not. */
function withSearch(address: Address, defaultPort: number): Address & { portSearch: number } {
  return { host: address.host, port: address.port, portSearch: address.port === defaultPort ? portSearch : 0 };
}
