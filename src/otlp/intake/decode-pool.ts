/**
 * Owns the decode workers. A worker that exits is restarted, and its jobs are repeated from the write-ahead file. A job that crashes three workers is
 * dropped and counted as lost. Without work there is no worker.
 */

import { existsSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { Worker } from "node:worker_threads";
import type { Clock } from "../../base/clock.ts";
import { CoralError } from "../../base/errors.ts";
import type { Logger } from "../../base/log.ts";
import { readWriteAhead, type SealedSegment, type SealJob } from "../../store/segments/index.ts";
import { MalformedError } from "../columns/protobuf-reader.ts";
import type { OtlpSignal } from "../decode/inspect-request.ts";
import { type DecodedMetrics, decodeMetricRequest } from "../decode/metric-request.ts";
import { jsonToProtobuf } from "../json/json-request.ts";
import type { PatternCount } from "../logs/annotate-logs.ts";
import type { DecodeReport, DecodeResults, DecodeWork } from "./decode-orders.ts";
import type { SamplingBudget } from "./sampling-budget.ts";
import { unpackZstd, zstdContentBound } from "./unpack-zstd.ts";

export interface DecodePoolOptions {
  /** Threads at most; default 1. */
  workers?: number;
  /** The bundled worker; default: next to the program. */
  file?: string;
  sampling: SamplingBudget;
  clock: Clock;
  log: Logger;
  /** Called with the patterns of log records when they are stored. */
  onPatterns?: (patterns: readonly PatternCount[]) => void;
  /** Templates of log records that a worker starts with. */
  knownTemplates?: () => readonly { service: string; template: string }[];
  /** An idle worker exits after this time. Default 60 s. */
  idleMs?: number;
  /** A job that takes longer ends its worker. Default 60 s. */
  jobTimeoutMs?: number;
}

/** `restarts` and `sampledOut` count since the start. */
export interface DecodePoolStats {
  /** Running threads. */
  workers: number;
  /** Unexpected ends of workers. */
  restarts: number;
  /** Spans dropped by sampling. */
  sampledOut: number;
}

/** Smaller requests are decoded on the receiver's thread: crossing threads would cost more. */
const inlineBytes = 256 * 1024;
/** Half the rows of a full write-ahead file. */
const largeFileRows = 10_000;
/** A job that ends its worker this often is given up: it probably causes the crash. */
const maxAttempts = 3;
/** JavaScript's heap of a worker; columns are outside of it. */
const heapLimitMb = 256;
/** Its young generation. A decoder creates few objects: V8's default of 48 MiB would only slow a restart down. */
const youngHeapMb = 12;

interface Job {
  id: number;
  work: DecodeWork;
  attempts: number;
  resolve: (result: DecodeResults[keyof DecodeResults]) => void;
  reject: (error: unknown) => void;
}

interface Slot {
  worker: Worker | undefined;
  jobs: Map<number, Job>;
  idleTimer: NodeJS.Timeout | undefined;
  jobTimer: NodeJS.Timeout | undefined;
}

/** Small requests are decoded on the calling thread; sealing always runs in a worker. */
export class DecodePool implements AsyncDisposable {
  readonly #options: DecodePoolOptions;
  readonly #slots: Slot[];
  #nextId = 1;
  #restarts = 0;
  #sampledOut = 0;
  #isClosed = false;

  constructor(options: DecodePoolOptions) {
    this.#options = options;
    this.#slots = Array.from({ length: options.workers ?? 1 }, () => ({
      worker: undefined,
      jobs: new Map(),
      idleTimer: undefined,
      jobTimer: undefined,
    }));
  }

  get stats(): DecodePoolStats {
    return {
      workers: this.#slots.filter(({ worker }) => worker !== undefined).length,
      restarts: this.#restarts,
      sampledOut: this.#sampledOut,
    };
  }

  /** For the segment store. */
  readonly seal = async (job: SealJob): Promise<SealedSegment> => {
    const { sampling, clock } = this.#options;
    const plan = job.signal === "span" ? sampling.plan() : undefined;
    const { sealed, sampling: counts, patterns } = await this.#run({ kind: "seal", job, ...(plan && { plan }) });
    if (counts) {
      this.#sampledOut += counts.dropped - counts.rescued;
      sampling.report({ rows: sealed.rows, sizeBytes: sealed.sizeBytes, ...counts }, clock.monotonicMs());
    }
    if (patterns && patterns.length > 0) this.#options.onPatterns?.(patterns);
    return sealed;
  };

  /** Throws MalformedError for what cannot be read. */
  async decodeMetrics(body: Uint8Array, receivedAtUs: number): Promise<DecodedMetrics> {
    if (body.length <= inlineBytes) return decodeMetricRequest(body, receivedAtUs);
    return this.#run({ kind: "metrics", body, receivedAtUs });
  }

  /** Throws MalformedError for a malformed request. */
  async jsonToProtobuf(signal: OtlpSignal, body: Uint8Array): Promise<Uint8Array> {
    if (body.length <= inlineBytes) return jsonToProtobuf(signal, body);
    return this.#run({ kind: "json", signal, body });
  }

  /** Null when the content is larger than `maxBytes`. Throws MalformedError. */
  async unpackZstd(body: Uint8Array, maxBytes: number): Promise<Uint8Array | null> {
    if (zstdContentBound(body, maxBytes) <= inlineBytes) return unpackZstd(body, maxBytes);
    return this.#run({ kind: "zstd", body, maxBytes });
  }

  async [Symbol.asyncDispose](): Promise<void> {
    if (this.#isClosed) return;
    this.#isClosed = true;
    await Promise.all(this.#slots.map((slot) => this.#close(slot)));
  }

  async #close(slot: Slot): Promise<void> {
    clearTimeout(slot.idleTimer);
    clearTimeout(slot.jobTimer);
    const { worker } = slot;
    slot.worker = undefined;
    for (const { reject } of slot.jobs.values()) {
      reject(new CoralError({ code: "unavailable", message: "Cannot decode requests: the receiver is closing" }));
    }
    slot.jobs.clear();
    await worker?.terminate();
  }

  #run<W extends DecodeWork>(work: W): Promise<DecodeResults[W["kind"]]> {
    if (this.#isClosed)
      return Promise.reject(new CoralError({ code: "unavailable", message: "Cannot decode requests: the receiver is closed" }));
    return new Promise((resolve, reject) => {
      const job: Job = { id: this.#nextId++, work, attempts: 0, resolve: resolve as Job["resolve"], reject };
      this.#post(this.#slotFor(work), job);
    });
  }

  /** The least busy worker. Another one is started only if all are busy and the job is large: a small file is done before a new worker is up. */
  #slotFor(work: DecodeWork): Slot {
    const isLarge = work.kind === "seal" ? work.job.rows >= largeFileRows : true;
    const running = this.#slots.filter(({ worker }) => worker !== undefined);
    const least = running.reduce<Slot | undefined>((best, slot) => (best && best.jobs.size <= slot.jobs.size ? best : slot), undefined);
    if (least !== undefined && (least.jobs.size === 0 || !isLarge)) return least;
    const another = this.#slots.find(({ worker }) => worker === undefined) ?? least;
    if (another === undefined) throw new Error("a pool has at least one worker");
    return another;
  }

  #post(slot: Slot, job: Job): void {
    clearTimeout(slot.idleTimer);
    slot.jobs.set(job.id, job);
    job.attempts++;
    try {
      slot.worker ??= this.#start(slot);
      slot.worker.postMessage({ id: job.id, work: job.work });
      this.#watch(slot);
    } catch (error) {
      slot.jobs.delete(job.id);
      job.reject(error);
    }
  }

  #start(slot: Slot): Worker {
    const worker = new Worker(this.#options.file ?? workerFile(), {
      resourceLimits: { maxOldGenerationSizeMb: heapLimitMb, maxYoungGenerationSizeMb: youngHeapMb },
      name: "coral-decode",
      // Threads do not inherit the daemon's flags, such as an inspector's port.
      execArgv: [],
    });
    worker.unref();
    worker.on("message", (report: DecodeReport) => this.#settle(slot, report));
    let reason = "it ended";
    worker.on("error", (error) => {
      reason = error.message;
    });
    worker.on("exit", () => this.#ended(slot, worker, reason));
    const templates = this.#options.knownTemplates?.() ?? [];
    // Its report has no job id: nothing waits for it.
    if (templates.length > 0) worker.postMessage({ id: 0, work: { kind: "teach", templates } satisfies DecodeWork });
    return worker;
  }

  #settle(slot: Slot, report: DecodeReport): void {
    const job = slot.jobs.get(report.id);
    if (job === undefined) return;
    slot.jobs.delete(report.id);
    this.#watch(slot);
    if ("result" in report) job.resolve(report.result);
    else job.reject(errorOf(report.failure));
  }

  /** One timer for the work in progress, or for having none. */
  #watch(slot: Slot): void {
    clearTimeout(slot.jobTimer);
    clearTimeout(slot.idleTimer);
    const { worker } = slot;
    if (worker === undefined) return;
    const { idleMs = 60_000, jobTimeoutMs = 60_000 } = this.#options;
    if (slot.jobs.size > 0) {
      // Keep the process alive: a closing daemon waits until its segments are sealed.
      worker.ref();
      slot.jobTimer = setTimeout(() => void worker.terminate(), jobTimeoutMs).unref();
      return;
    }
    worker.unref();
    slot.idleTimer = setTimeout(() => {
      slot.worker = undefined;
      void worker.terminate();
    }, idleMs).unref();
  }

  #ended(slot: Slot, worker: Worker, reason: string): void {
    if (slot.worker !== worker) return;
    slot.worker = undefined;
    clearTimeout(slot.jobTimer);
    if (this.#isClosed) return;
    this.#restarts++;
    this.#options.log.warn(`decode worker exited (${reason}); restarting it and re-queueing its jobs`, { jobs: slot.jobs.size });
    const jobs = [...slot.jobs.values()];
    slot.jobs.clear();
    // Only the first was being decoded; the others were waiting.
    for (const [index, job] of jobs.entries()) {
      if (index > 0) job.attempts--;
      if (job.attempts >= maxAttempts) this.#giveUp(job, reason);
      else this.#post(slot, job);
    }
  }

  #giveUp({ work, resolve, reject }: Job, reason: string): void {
    this.#options.log.error(`a request crashed ${maxAttempts} decode workers (${reason}); dropping it`, { kind: work.kind });
    if (work.kind === "seal") resolve({ sealed: nothingOf(work.job) });
    else reject(new CoralError({ code: "internal", message: `Cannot decode a request: ${reason}` }));
  }
}

/** A segment without rows that counts the rows of the file as lost. */
function nothingOf(job: SealJob): SealedSegment {
  let rows = 1;
  try {
    rows = readWriteAhead(job.writeAheadFile).records.reduce((sum, record) => sum + record.rows, 0);
  } catch {
    // The number of rows is unknown; the loss is counted as at least one.
  }
  return {
    rows: 0,
    sizeBytes: 0,
    minTimeUs: 0,
    maxTimeUs: 0,
    services: [],
    schemaVersion: 1,
    sha256: "",
    lost: { undecodable: Math.max(1, rows) },
  };
}

function errorOf(failure: { isMalformed: boolean; code: string; message: string }): Error {
  if (failure.isMalformed) return new MalformedError(failure.message);
  return Object.assign(new Error(failure.message), { code: failure.code });
}

function workerFile(): string {
  const file = ["./decode-worker.js", "../../../dist/decode-worker.js"]
    .map((path) => fileURLToPath(new URL(path, import.meta.url)))
    .find((path) => existsSync(path));
  if (file === undefined) {
    throw new CoralError({
      code: "internal",
      message: "Cannot decode requests: decode-worker.js is missing; run `npm run build`",
    });
  }
  return file;
}
