/**
 * Pulls rows after the checkpoint from every connected agent. One loop per tunnel; a pool bounds concurrent pulls, and agents that failed recently
 * share a small pool of their own, so that slow agents do not delay the others.
 */

import type { MessageInitShape } from "@bufbuild/protobuf";
import { createClient } from "@connectrpc/connect";
import { createBackoff } from "../../base/backoff.ts";
import { type Clock, sleep } from "../../base/clock.ts";
import { CoralError } from "../../base/errors.ts";
import type { Logger } from "../../base/log.ts";
import { Semaphore } from "../../base/semaphore.ts";
import { AgentService, type PullRequestSchema, type PullResponse } from "../../proto/coral/agent/v1/agent_pb.ts";
import type { ColonyStore } from "../../store/colony/index.ts";
import { red } from "../../store/signals/index.ts";
import type { AgentPull, SignalSlice } from "../../store/tables/index.ts";
import { fromConnectError, type Tunnel } from "../../transport/index.ts";
import type { ColonyMetrics } from "../core/colony-metrics.ts";
import type { AgentLink } from "../registry/agent-link.ts";
import type { Ingest } from "./ingest.ts";
import { LinkSpeed } from "./link-speed.ts";

export interface PullOptions {
  intervalMs: number;
  concurrency: number;
  timeoutMs: number;
  maxBatchBytes: number;
}

export interface PullSchedulerOptions {
  store: Pick<ColonyStore, "checkpoints">;
  ingest: Ingest;
  /** Signals to pull. */
  signals: readonly string[];
  /** Read before each pull, so that a reloaded config applies at once. */
  settings: () => PullOptions;
  /** The last link of the colony's own audit, for agents to keep. */
  auditHead?: () => { chainId: string; entry: number; hash: string };
  clock: Clock;
  log: Logger;
  metrics: ColonyMetrics;
  /** Whether to count requests that this agent recorded at a time; undefined: all. */
  countedBy?: (agentId: string) => ((timeMs: number) => boolean) | undefined;
  /** Called after each answer, with the lag of its oldest row when it had any. */
  onContact: (agentId: string, lagMs: number | undefined) => void;
  /** Called after each answer, once there are enough to measure the link. */
  onLink?: (agentId: string, reading: AgentLink) => void;
  /** Called after each answer: why the agent cannot store rows; empty when it can. */
  onStoreProblem?: (agentId: string, problem: string) => void;
}

/** Slots for agents whose last pull failed, in addition to the pool. */
const slowLaneSlots = 8;
/** A new agent has its first sample after about a second: pull again soon, so that it shows up quickly. */
const secondPullMs = 2_000;
/** How often a long pause re-reads the settings. */
const settingsCheckMs = 5_000;

/** While the colony's store rejects rows: intervals to wait, and bytes to pull to test whether it recovered. */
const storeFailureIntervals = 2;
const storeProbeBytes = 64 * 1024;

/** One agent behind one tunnel. */
interface PullTarget {
  client: ReturnType<typeof createClient<typeof AgentService>>;
  agentId: string;
  epoch: string;
  reported: ReportedLosses;
  speed: LinkSpeed;
  /** The last answer was valid but could not be stored. */
  isStoreFailing: boolean;
}

/** A pull that does not wait for the interval. */
class EarlyPull {
  #isWanted = false;
  #pause: AbortController | undefined;

  /** A request during a pull may have missed it, so another pull follows. */
  request(): void {
    this.#isWanted = true;
    this.#pause?.abort();
  }

  /** Waits, unless a pull was requested since the last one began. */
  async pause(wait: (signal: AbortSignal) => Promise<void>, signal: AbortSignal): Promise<void> {
    if (this.#isWanted) return;
    const pause = new AbortController();
    this.#pause = pause;
    try {
      await wait(AbortSignal.any([signal, pause.signal]));
    } catch (error) {
      if (!pause.signal.aborted) throw error;
    }
  }

  begin(): void {
    this.#isWanted = false;
  }
}

export class PullScheduler {
  readonly #options: PullSchedulerOptions;
  readonly #pool: Semaphore;
  readonly #slowLane = new Semaphore(slowLaneSlots);
  /** By agent. A reconnecting agent briefly has two; the newer one wins. */
  readonly #early = new Map<string, EarlyPull>();

  constructor(options: PullSchedulerOptions) {
    this.#options = options;
    this.#pool = new Semaphore(options.settings().concurrency);
  }

  /** Pulls until the tunnel closes or the signal aborts. Never rejects because of an agent. */
  async run(tunnel: Tunnel, epoch: string, signal: AbortSignal): Promise<void> {
    const { settings, log } = this.#options;
    const target: PullTarget = {
      client: createClient(AgentService, tunnel.transport),
      agentId: tunnel.agentId,
      epoch,
      reported: new ReportedLosses(),
      speed: new LinkSpeed(),
      isStoreFailing: false,
    };
    const backoff = createBackoff({ initialMs: settings().intervalMs, maxMs: Math.max(60_000, settings().intervalMs) });
    let failures = 0;
    let waitAtMostMs = secondPullMs;
    const early = new EarlyPull();
    this.#early.set(target.agentId, early);
    using _listed = { [Symbol.dispose]: () => this.#early.get(target.agentId) === early && this.#early.delete(target.agentId) };
    while (!signal.aborted) {
      const lane = failures === 0 ? this.#pool : this.#slowLane;
      try {
        const more = await lane.run(() => {
          early.begin();
          return this.#pullOnce(target, signal);
        });
        failures = 0;
        backoff.reset();
        if (more) continue;
        await early.pause((ended) => this.#pause(waitAtMostMs, ended), signal);
        waitAtMostMs = Number.POSITIVE_INFINITY;
      } catch (error) {
        if (signal.aborted) return;
        failures++;
        this.#options.metrics.pullFailures.inc();
        const problem = fromConnectError(error);
        log[failures === 1 ? "warn" : "debug"](`Cannot pull from agent ${tunnel.agentId}: ${problem.message}`, {
          code: problem.code,
          failures,
        });
        // A full disk here must not make agents look silent: keep pulling, but little.
        const delayMs = target.isStoreFailing ? settings().intervalMs * storeFailureIntervals * jitter() : backoff.nextMs();
        await sleep(delayMs, signal).catch(() => undefined); // aborted: the loop's condition ends it
      }
    }
  }

  /** Pulls from the agent at once, or right after the current pull. A failed pull backs off first. */
  pullNow(agentId: string): void {
    this.#early.get(agentId)?.request();
  }

  /** Waits one interval; a shorter interval from a reloaded config applies meanwhile. */
  async #pause(atMostMs: number, signal: AbortSignal): Promise<void> {
    const { clock, settings } = this.#options;
    const startMs = clock.monotonicMs();
    const factor = jitter();
    for (;;) {
      const leftMs = startMs + Math.min(settings().intervalMs * factor, atMostMs) - clock.monotonicMs();
      if (leftMs <= 0) return;
      await sleep(Math.min(leftMs, settingsCheckMs), signal);
    }
  }

  /** True when the agent has more rows ready. */
  async #pullOnce(target: PullTarget, signal: AbortSignal): Promise<boolean> {
    const { store, ingest, clock, metrics, onContact, signals, auditHead, countedBy } = this.#options;
    const { agentId, epoch, reported } = target;
    if (signal.aborted) return false;
    const { afterSeq } = store.checkpoints(agentId, epoch);
    const cursors = signals.map((name) => ({ signal: name, afterSeq: BigInt(afterSeq.get(name) ?? 0) }));
    const requestedMs = clock.monotonicMs();
    const response = await this.#request(target, { cursors, ...(auditHead ? { colonyAudit: linkToWire(auditHead()) } : {}) }, signal);
    const pull = toAgentPull(agentId, response);
    // The epoch cannot change within a session: the agent opens its store before it registers.
    if (pull.epoch !== epoch) throw new CoralError({ code: "invalid", message: "its answer has another epoch than its registration" });
    const hasRows = pull.slices.some((slice) => slice.batch);
    const hasNews = hasRows || reported.hasChanged(pull) || pull.slices.some((slice) => isGap(slice, afterSeq));
    if (!hasNews) {
      onContact(agentId, undefined);
      return false;
    }
    const isCounted = countedBy?.(agentId);
    const kept = isCounted === undefined ? {} : { kept: new Map([[red.name, isCounted]]) };
    const outcome = await ingest.submit({ ...pull, ...kept }).catch((error: unknown) => {
      // The agent did respond: a full disk at the colony must not make it look silent.
      target.isStoreFailing = CoralError.from(error).code !== "invalid";
      if (target.isStoreFailing) onContact(agentId, undefined);
      throw error;
    });
    reported.accept(pull);
    const lagMs = hasRows ? Number(response.oldestAgeMs) + (clock.monotonicMs() - requestedMs) : undefined;
    onContact(agentId, lagMs);
    if (lagMs !== undefined) metrics.pullLag.observe(lagMs / 1_000);
    metrics.rowsStored.inc(outcome.storedRows);
    metrics.rowsLost.inc(outcome.lostRows);
    return response.more;
  }

  /** One pull, sized to what the link carries before the timeout. */
  async #request(target: PullTarget, request: MessageInitShape<typeof PullRequestSchema>, signal: AbortSignal): Promise<PullResponse> {
    const { clock, settings, onLink, onStoreProblem } = this.#options;
    const { client, agentId, speed } = target;
    const { timeoutMs, maxBatchBytes } = settings();
    const maxBytes = speed.batchBytes(target.isStoreFailing ? Math.min(maxBatchBytes, storeProbeBytes) : maxBatchBytes);
    target.isStoreFailing = false;
    const startMs = clock.monotonicMs();
    try {
      const response = await client.pull({ ...request, maxBytes: BigInt(Math.floor(maxBytes)) }, { timeoutMs, signal });
      const bytes = response.slices.reduce((total, { batch }) => total + (batch?.data.length ?? 0), 0);
      speed.answered({ tookMs: clock.monotonicMs() - startMs, bytes }, timeoutMs);
      if (speed.reading) onLink?.(agentId, speed.reading);
      onStoreProblem?.(agentId, response.storeProblem);
      return response;
    } catch (error) {
      if (fromConnectError(error).code === "timeout") speed.timedOut(maxBatchBytes);
      throw error;
    }
  }
}

function linkToWire({ chainId, entry, hash }: ReturnType<NonNullable<PullSchedulerOptions["auditHead"]>>) {
  return { chainId, entry: BigInt(entry), hash };
}

/** The losses stored last, so that an unchanged report causes no transaction. */
class ReportedLosses {
  #key = "";

  hasChanged(pull: AgentPull): boolean {
    return pull.losses.length > 0 && JSON.stringify(pull.losses) !== this.#key;
  }

  accept(pull: AgentPull): void {
    this.#key = JSON.stringify(pull.losses);
  }
}

function isGap(slice: SignalSlice, afterSeq: ReadonlyMap<string, number>): boolean {
  return slice.oldestSeq > (afterSeq.get(slice.signal) ?? 0) + 1;
}

function toAgentPull(agentId: string, response: PullResponse): AgentPull {
  return {
    agentId,
    epoch: response.epoch,
    slices: response.slices.map(({ signal, oldestSeq, nextSeq, batch }) => ({
      signal,
      oldestSeq: Number(oldestSeq),
      nextSeq: Number(nextSeq),
      ...(batch
        ? {
            batch: {
              firstSeq: Number(batch.firstSeq),
              lastSeq: Number(batch.lastSeq),
              rows: batch.rows,
              columns: batch.columns,
              data: batch.data,
            },
          }
        : {}),
    })),
    losses: response.losses.map(({ signal, reason, rows }) => ({ signal, reason, rows: Number(rows) })),
  };
}

/** ±5%, so that agents which registered together spread out over time. */
function jitter(): number {
  return 0.95 + Math.random() * 0.1;
}
