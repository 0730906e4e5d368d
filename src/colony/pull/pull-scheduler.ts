/**
 * Asks every connected agent for what comes after its checkpoint. One loop per tunnel; a bounded pool decides how many ask at once,
 * and agents that failed lately share a small pool of their own, so that slow ones delay nobody.
 */

import { createClient } from "@connectrpc/connect";
import { type Clock, sleep } from "../../base/clock.ts";
import { CoralError } from "../../base/errors.ts";
import type { Logger } from "../../base/log.ts";
import { createBackoff } from "../../base/retry.ts";
import { Semaphore } from "../../base/semaphore.ts";
import { AgentService, type PullResponse } from "../../proto/coral/agent/v1/agent_pb.ts";
import type { ColonyStore } from "../../store/colony/index.ts";
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
  /** Signals to ask for. */
  signals: readonly string[];
  /** Read before each pull, so that a reloaded config counts at once. */
  settings: () => PullOptions;
  /** How far the colony's own audit is, for agents to remember. */
  auditHead?: () => { chainId: string; entry: number; hash: string };
  clock: Clock;
  log: Logger;
  metrics: ColonyMetrics;
  /** Called after each answer, with the lag of its oldest row when it had any. */
  onContact: (agentId: string, lagMs: number | undefined) => void;
}

/** Agents that failed their last pull may take this many slots, besides the pool. */
const slowLaneSlots = 8;
/** An agent that has just started has its first sample about a second later: whoever waits for it sees it soon. */
const secondPullMs = 2_000;
/** How often a longer pause looks whether the config has changed. */
const settingsCheckMs = 5_000;

/** While our own store refuses rows: how many intervals to wait, and how much to ask for only to find out whether it takes them again. */
const storeFailureIntervals = 2;
const storeProbeBytes = 64 * 1024;

/** One agent behind one tunnel. */
interface PullTarget {
  client: ReturnType<typeof createClient<typeof AgentService>>;
  agentId: string;
  epoch: string;
  reported: ReportedLosses;
  /** The last answer was good, and could not be stored. */
  isStoreFailing: boolean;
}

export class PullScheduler {
  readonly #options: PullSchedulerOptions;
  readonly #pool: Semaphore;
  readonly #slowLane = new Semaphore(slowLaneSlots);

  constructor(options: PullSchedulerOptions) {
    this.#options = options;
    this.#pool = new Semaphore(options.settings().concurrency);
  }

  /** Pulls until the tunnel closes or the signal aborts; resolves then, never rejects for an agent's failure. */
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
        await this.#pause(waitAtMostMs, signal);
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
        // A disk that is full for long must not make agents look silent: they are asked on, but for little.
        const delayMs = target.isStoreFailing ? settings().intervalMs * storeFailureIntervals * jitter() : backoff.nextMs();
        await sleep(delayMs, signal).catch(() => undefined); // aborted: the loop's condition ends it
      }
    }
  }

  /** One interval; a shorter one that a reloaded config brings counts meanwhile. */
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
    const { store, ingest, clock, metrics, onContact, signals, settings, auditHead } = this.#options;
    const { client, agentId, epoch, reported } = target;
    if (signal.aborted) return false;
    const { timeoutMs, maxBatchBytes } = settings();
    const maxBytes = target.isStoreFailing ? Math.min(maxBatchBytes, storeProbeBytes) : maxBatchBytes;
    target.isStoreFailing = false;
    const { afterSeq } = store.checkpoints(agentId, epoch);
    const cursors = signals.map((name) => ({ signal: name, afterSeq: BigInt(afterSeq.get(name) ?? 0) }));
    const askedMs = clock.monotonicMs();
    const response = await client.pull(
      { cursors, maxBytes: BigInt(maxBytes), ...(auditHead ? { colonyAudit: linkToWire(auditHead()) } : {}) },
      { timeoutMs, signal },
    );
    const pull = toAgentPull(agentId, response);
    // An agent's store, and with it the epoch, is opened once before it registers.
    if (pull.epoch !== epoch) throw new CoralError({ code: "invalid", message: "its answer is of another epoch than its registration" });
    const hasRows = pull.slices.some((slice) => slice.batch);
    const hasNews = hasRows || reported.hasChanged(pull) || pull.slices.some((slice) => isGap(slice, afterSeq));
    if (!hasNews) {
      onContact(agentId, undefined);
      return false;
    }
    const outcome = await ingest.submit(pull).catch((error: unknown) => {
      // The agent has answered well: that our own disk is full is not its silence.
      target.isStoreFailing = CoralError.from(error).code !== "invalid";
      if (target.isStoreFailing) onContact(agentId, undefined);
      throw error;
    });
    reported.accept(pull);
    const lagMs = hasRows ? Number(response.oldestAgeMs) + (clock.monotonicMs() - askedMs) : undefined;
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

/** The losses that were stored last, so that an unchanged report costs no transaction. */
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

/** Within a tenth, so that a thousand agents that registered together do not answer together for ever. */
function jitter(): number {
  return 0.95 + Math.random() * 0.1;
}
