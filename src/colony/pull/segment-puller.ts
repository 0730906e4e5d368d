/**
 * Pulls whole segments from every connected agent. One loop per tunnel; a pool bounds how many agents stream at once, so that a thousand of them do not
 * saturate the disk. Received segments are committed with their checkpoint, a few at a time, while the next ones stream.
 */

import { createClient } from "@connectrpc/connect";
import { createBackoff } from "../../base/backoff.ts";
import { sleep } from "../../base/clock.ts";
import { CoralError } from "../../base/errors.ts";
import type { Logger } from "../../base/log.ts";
import { Semaphore } from "../../base/semaphore.ts";
import { AgentService } from "../../proto/coral/agent/v1/agent_pb.ts";
import type { ColonySegments, PulledSignal, SegmentOffer } from "../../store/segments/index.ts";
import { fromConnectError, type Tunnel } from "../../transport/index.ts";
import type { ColonyMetrics } from "../core/colony-metrics.ts";
import { maxSegmentsPerTurn, segmentBatches } from "./segment-batches.ts";

export interface SegmentPullerOptions {
  segments: Pick<ColonySegments, "checkpoints" | "receive" | "commit">;
  /** Signals to pull. */
  signals: readonly string[];
  /** Read before each round. */
  settings: () => { intervalMs: number; timeoutMs: number };
  metrics: Pick<ColonyMetrics, "rowsStored" | "rowsLost" | "pullFailures">;
  log: Logger;
  /** Agents that stream at once. Default 4. */
  concurrency?: number;
}

/** While one segment waits for the disk, another uses the network. */
const streamsPerAgent = 3;
/** After this many corrupt transfers a segment is skipped, and its rows are a gap. */
const maxAttempts = 3;
/** How often a timed-out stream resumes at its last byte. */
const maxResumes = 3;
/** Agents seal a segment at least this often; polling more slowly only adds lag. */
const longestIntervalMs = 5_000;

/** Without `readFile`, segments are read by RPC. */
export type SegmentTunnel = Pick<Tunnel, "agentId" | "transport"> & Partial<Pick<Tunnel, "readFile">>;

interface Target {
  client: ReturnType<typeof createClient<typeof AgentService>>;
  /** Undefined when the tunnel has none, or the agent's version does not serve files. */
  readFile: Tunnel["readFile"] | undefined;
  agentId: string;
  epoch: string;
  /** Failed attempts by signal and segment number. */
  failures: Map<string, number>;
}

export class SegmentPuller {
  readonly #options: SegmentPullerOptions;
  readonly #pool: Semaphore;

  constructor(options: SegmentPullerOptions) {
    this.#options = options;
    this.#pool = new Semaphore(options.concurrency ?? 4);
  }

  /** Pulls until the tunnel closes, the signal aborts, or the agent turns out not to support segments. Never rejects because of an agent. */
  async run(tunnel: SegmentTunnel, epoch: string, signal: AbortSignal): Promise<void> {
    const { settings, metrics, log } = this.#options;
    const { agentId, transport, readFile } = tunnel;
    const target: Target = { client: createClient(AgentService, transport), readFile, agentId, epoch, failures: new Map() };
    const backoff = createBackoff({ initialMs: 1_000, maxMs: 60_000 });
    while (!signal.aborted) {
      let delayMs = Math.min(longestIntervalMs, settings().intervalMs);
      try {
        const more = await this.#pool.run(() => this.#pullOnce(target, signal));
        backoff.reset();
        if (more) continue;
      } catch (error) {
        if (signal.aborted) return;
        const problem = fromConnectError(error);
        // An agent of an older version.
        if (problem.code === "unsupported") return;
        metrics.pullFailures.inc();
        log.warn(`Cannot pull segments from agent ${tunnel.agentId}: ${problem.message}`, { code: problem.code });
        delayMs = backoff.nextMs();
      }
      await sleep(delayMs, signal).catch(() => undefined); // aborted: the loop's condition ends it
    }
  }

  /** True when the agent has more. */
  async #pullOnce(target: Target, signal: AbortSignal): Promise<boolean> {
    const { segments, signals, settings } = this.#options;
    const { client, agentId, epoch } = target;
    if (signal.aborted) return false;
    const checkpoints = segments.checkpoints(agentId, epoch);
    // The agent treats segments up to the cursor as stored: only committed ones may be named here.
    const cursors = signals.map((name) => ({ signal: name, afterNumber: BigInt(checkpoints.get(name) ?? 0) }));
    const { timeoutMs } = settings();
    const answer = await client.listSegments({ cursors, maxSegments: maxSegmentsPerTurn }, { timeoutMs, signal });
    if (answer.epoch !== epoch) throw new CoralError({ code: "invalid", message: "its answer has another epoch than its registration" });
    const lists = answer.lists.filter((list) => signals.includes(list.signal));
    const hasNews = lists.some((list) => list.segments.length > 0 || Number(list.lastNumber) > (checkpoints.get(list.signal) ?? 0));
    if (!hasNews) return false;
    const { batches, isAll } = segmentBatches(lists);
    await this.#pullBatches(target, batches, signal);
    return !isAll;
  }

  /** Commits one batch while the next ones stream, in the order of the lists. A failure cancels the later batches. */
  async #pullBatches(target: Target, batches: readonly PulledSignal[][], signal: AbortSignal): Promise<void> {
    const stop = new AbortController();
    const onAbort = (): void => stop.abort(signal.reason);
    signal.addEventListener("abort", onAbort, { once: true });
    const streams = new Semaphore(streamsPerAgent);
    const receiving = batches.map((batch) => this.#receiveBatch(target, batch, streams, stop.signal));
    let committing: Promise<void> = Promise.resolve();
    try {
      for (const batch of receiving) {
        const { received, failure } = await batch;
        await committing;
        committing = this.#commit(target, received);
        // A failure is thrown at the next await; until then it must not count as unhandled.
        committing.catch(() => undefined);
        if (failure !== undefined) throw failure;
      }
    } finally {
      stop.abort();
      await Promise.all(receiving);
      signal.removeEventListener("abort", onAbort);
      await committing;
    }
  }

  async #commit({ agentId, epoch }: Target, signals: readonly PulledSignal[]): Promise<void> {
    const { segments, metrics } = this.#options;
    if (!signals.some(({ offers, isAll }) => offers.length > 0 || isAll)) return;
    const outcome = await segments.commit({ agentId, epoch, signals });
    metrics.rowsStored.inc(outcome.storedRows);
    metrics.rowsLost.inc(outcome.lostRows);
  }

  /** Never rejects: segments received before a failure are kept. */
  async #receiveBatch(
    target: Target,
    batch: readonly PulledSignal[],
    streams: Semaphore,
    signal: AbortSignal,
  ): Promise<{ received: PulledSignal[]; failure: CoralError | undefined }> {
    const receive = (offer: SegmentOffer): Promise<boolean> =>
      streams.run(async () => {
        signal.throwIfAborted();
        return offer.isLost || (await this.#receive(target, offer, signal));
      });
    const outcomes = await Promise.all(batch.map(({ offers }) => Promise.allSettled(offers.map(receive))));
    let failure: CoralError | undefined;
    const received = batch.map((part, index): PulledSignal => {
      const offers: PulledSignal["offers"][number][] = [];
      for (const [at, outcome] of outcomes[index]?.entries() ?? []) {
        const offer = part.offers[at] as SegmentOffer;
        if (outcome.status === "rejected") {
          // Segments after a failure are pulled again: a checkpoint cannot skip a hole.
          failure ??= fromConnectError(outcome.reason);
          return { ...part, offers, isAll: false };
        }
        offers.push(outcome.value ? offer : { ...offer, skipReason: "unreadable" });
      }
      return { ...part, offers };
    });
    return { received, failure };
  }

  /** False when the segment has failed too often and is skipped. */
  async #receive(target: Target, offer: SegmentOffer, signal: AbortSignal): Promise<boolean> {
    const key = `${offer.signal} ${offer.number}`;
    try {
      await this.#options.segments.receive(target.agentId, target.epoch, offer, this.#bytesOf(target, offer, signal));
      target.failures.delete(key);
      return true;
    } catch (error) {
      const { code, message } = CoralError.from(error);
      if (code !== "corrupt" && code !== "invalid") throw error;
      const attempts = (target.failures.get(key) ?? 0) + 1;
      target.failures.set(key, attempts);
      if (attempts < maxAttempts) throw error;
      target.failures.delete(key);
      this.#options.log.error(
        `Skipping a segment of agent ${target.agentId} after ${maxAttempts} attempts: ${message}; its rows are recorded as lost`,
        {
          signal: offer.signal,
          number: offer.number,
        },
      );
      return false;
    }
  }

  async *#bytesOf(target: Target, offer: SegmentOffer, signal: AbortSignal): AsyncGenerator<Uint8Array, void, undefined> {
    let at = 0;
    for (let resumes = 0; ; ) {
      try {
        for await (const data of this.#partsFrom(target, offer, at, signal)) {
          at += data.length;
          yield data;
        }
        return;
      } catch (error) {
        const problem = fromConnectError(error);
        if (problem.code === "unsupported" && target.readFile !== undefined) target.readFile = undefined;
        else if (problem.code !== "timeout" || resumes++ >= maxResumes) throw problem;
      }
    }
  }

  async *#partsFrom(
    { client, readFile, epoch }: Target,
    offer: SegmentOffer,
    offsetBytes: number,
    signal: AbortSignal,
  ): AsyncGenerator<Uint8Array, void, undefined> {
    const { timeoutMs } = this.#options.settings();
    if (readFile !== undefined) {
      yield* readFile(`segments/${epoch}/${offer.signal}/${offer.number}`, { offsetBytes, idleTimeoutMs: timeoutMs, signal });
      return;
    }
    const request = { epoch, signal: offer.signal, number: BigInt(offer.number), offsetBytes: BigInt(offsetBytes) };
    for await (const { data } of client.readSegment(request, { timeoutMs: Math.max(60_000, timeoutMs), signal })) yield data;
  }
}
