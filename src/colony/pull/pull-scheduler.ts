/**
 * Pulls rows after the checkpoint from every connected agent. One loop per tunnel; a pool bounds concurrent pulls, and agents that failed recently
 * share a small pool of their own, so that slow agents do not delay the others.
 */

import { createClient } from "@connectrpc/connect";
import { type Clock, sleep } from "../../base/clock.ts";
import { CoralError } from "../../base/errors.ts";
import type { Logger } from "../../base/log.ts";
import { createBackoff } from "../../base/retry.ts";
import { Semaphore } from "../../base/semaphore.ts";
import { AgentService, type PullResponse } from "../../proto/coral/agent/v1/agent_pb.ts";
import type { ColonyStore } from "../../store/colony/index.ts";
import { red } from "../../store/signals/index.ts";
import type { AgentPull, SignalSlice } from "../../store/tables/index.ts";
import { fromConnectError, type Tunnel } from "../../transport/index.ts";
import type { ColonyMetrics } from "../core/colony-metrics.ts";
import type { Ingest } from "./ingest.ts";

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
  /** Whether requests that this agent recorded at a time count; undefined: all do. */
  countedBy?: (agentId: string) => ((timeMs: number) => boolean) | undefined;
  /** Called after each answer, with the lag of its oldest row when it had any. */
  onContact: (agentId: string, lagMs: number | undefined) => void;
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
  /** The last answer was valid but could not be stored. */
  isStoreFailing: boolean;
}

export class PullScheduler {
  readonly #options: PullSchedulerOptions;
  readonly #pool: Semaphore;
  readonly #slowLane = new Semaphore(slowLaneSlots);
  /** Ends the pause of an agent's loop. */
  readonly #pauses = new Map<string, AbortController>();

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
      isStoreFailing: false,
    };
    const backoff = createBackoff({ initialMs: settings().intervalMs, maxMs: Math.max(60_000, settings().intervalMs) });
    let failures = 0;
    let waitAtMostMs = secondPullMs;
    while (!signal.aborted) {
      const lane = failures === 0 ? this.#pool : this.#slowLane;
      try {
        const more = await lane.run(() => this.#pullOnce(target, signal));
        failures = 0;
        backoff.reset();
        if (more) continue;
        await this.#pauseOf(target.agentId, waitAtMostMs, signal);
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

  /** Pulls from the agent at once, unless it is being pulled or the last pull failed. */
  pullNow(agentId: string): void {
    this.#pauses.get(agentId)?.abort();
  }

  async #pauseOf(agentId: string, atMostMs: number, signal: AbortSignal): Promise<void> {
    const early = new AbortController();
    this.#pauses.set(agentId, early);
    try {
      await this.#pause(atMostMs, AbortSignal.any([signal, early.signal]));
    } catch (error) {
      if (!early.signal.aborted) throw error;
    } finally {
      if (this.#pauses.get(agentId) === early) this.#pauses.delete(agentId);
    }
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
    const { store, ingest, clock, metrics, onContact, signals, settings, auditHead, countedBy } = this.#options;
    const { client, agentId, epoch, reported } = target;
    if (signal.aborted) return false;
    const { timeoutMs, maxBatchBytes } = settings();
    const maxBytes = target.isStoreFailing ? Math.min(maxBatchBytes, storeProbeBytes) : maxBatchBytes;
    target.isStoreFailing = false;
    const { afterSeq } = store.checkpoints(agentId, epoch);
    const cursors = signals.map((name) => ({ signal: name, afterSeq: BigInt(afterSeq.get(name) ?? 0) }));
    const requestedMs = clock.monotonicMs();
    const response = await client.pull(
      { cursors, maxBytes: BigInt(maxBytes), ...(auditHead ? { colonyAudit: linkToWire(auditHead()) } : {}) },
      { timeoutMs, signal },
    );
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
      // The agent did answer: a full disk of the colony is not the agent's silence.
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
