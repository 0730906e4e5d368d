/** The runtimes that agents report: the latest in memory, written to the store at most once a minute per agent. */

import type { Clock } from "../../base/clock.ts";
import type { Logger } from "../../base/log.ts";
import { describeRuntimeChanges, type RuntimeFacts } from "../../model/runtime-facts.ts";
import { type ColonyStore, forgetRuntime, loadRuntimes, recordEvent, storeRuntime } from "../../store/colony/index.ts";
import { type CheckedRuntime, checkRuntime } from "./check-runtime.ts";

export interface RuntimeRegistryOptions {
  store: ColonyStore;
  clock: Clock;
  log: Logger;
}

interface RuntimeEntry extends CheckedRuntime {
  /** The stored version; undefined before the first write. */
  stored: CheckedRuntime | undefined;
  /** Time of the last write, monotonic. */
  storedAtMs: number;
  /** Reason of the unwritten change; undefined when the store is up to date. */
  pending: string | undefined;
}

/** Bounds the writes for an agent whose runtime flaps. */
const writeIntervalMs = 60_000;

export class RuntimeRegistry {
  readonly #options: RuntimeRegistryOptions;
  readonly #entries = new Map<string, RuntimeEntry>();
  #deferred = 0;

  private constructor(options: RuntimeRegistryOptions) {
    this.#options = options;
  }

  static async open(options: RuntimeRegistryOptions): Promise<RuntimeRegistry> {
    const registry = new RuntimeRegistry(options);
    for (const { agentId, facts, problems } of await loadRuntimes(options.store)) {
      registry.#entries.set(agentId, {
        facts,
        problems,
        stored: { facts, problems },
        storedAtMs: Number.NEGATIVE_INFINITY,
        pending: undefined,
      });
    }
    return registry;
  }

  /** Null for an agent that reports none. */
  of(agentId: string): CheckedRuntime | null {
    return this.#entries.get(agentId) ?? null;
  }

  /** Changes since the start whose write was deferred by the rate limit. */
  get deferred(): number {
    return this.#deferred;
  }

  /** Updates an agent's runtime from its registration; `reason` is the agent's own, empty for a new session. */
  async update(agentId: string, reported: RuntimeFacts | null, reason: string): Promise<void> {
    const before = this.#entries.get(agentId);
    if (reported === null) {
      if (!before) return;
      this.#entries.delete(agentId);
      await forgetRuntime(this.#options.store, agentId);
      return;
    }
    const checked = checkRuntime(reported);
    const isSame = before?.stored !== undefined && contentOf(before.stored) === contentOf(checked);
    const entry: RuntimeEntry = {
      ...checked,
      stored: before?.stored,
      storedAtMs: before?.storedAtMs ?? Number.NEGATIVE_INFINITY,
      pending: isSame ? undefined : (before?.pending ?? reasonOf(before?.stored?.facts, reported, reason)),
    };
    this.#entries.set(agentId, entry);
    if (checked.problems.length > 0 && checked.problems.join() !== before?.problems.join()) await this.#alert(agentId, checked.problems);
    if (isSame) return;
    if (this.#options.clock.monotonicMs() - entry.storedAtMs < writeIntervalMs) this.#deferred++;
    else await this.#write(agentId, entry);
  }

  /** Writes deferred changes that are due. Called every few seconds; before closing with `all`, which writes every deferred change. */
  async flush(all = false): Promise<void> {
    const nowMs = this.#options.clock.monotonicMs();
    for (const [agentId, entry] of this.#entries) {
      if (entry.pending !== undefined && (all || nowMs - entry.storedAtMs >= writeIntervalMs)) await this.#write(agentId, entry);
    }
  }

  async #write(agentId: string, entry: RuntimeEntry): Promise<void> {
    const { store, clock } = this.#options;
    const { facts, problems, stored, pending = "registration" } = entry;
    const changes = stored ? describeRuntimeChanges(stored.facts, facts) : [];
    const updatedAt = clock.wallMs() * 1_000;
    await storeRuntime(store, { agentId, facts, problems, updatedAt }, { reason: pending, changes: changes.join(", ") });
    entry.stored = { facts, problems };
    entry.storedAtMs = clock.monotonicMs();
    entry.pending = undefined;
    if (stored && changes.length > 0) {
      const message = `Runtime of agent ${agentId} changed: ${changes.join(", ")}`;
      await recordEvent(store, { at: updatedAt, kind: "agent-runtime-changed", agentId, message, details: { reason: pending, changes } });
    }
  }

  async #alert(agentId: string, problems: readonly string[]): Promise<void> {
    const { store, clock, log } = this.#options;
    const message = `Agent ${agentId} reports an inconsistent runtime: it ${problems.join("; it ")}`;
    log.warn(message, { agentId });
    await recordEvent(store, { at: clock.wallMs() * 1_000, kind: "agent-runtime-doubtful", agentId, message, details: { problems } });
  }
}

/** Everything except the time of detection. */
function contentOf({ facts, problems }: CheckedRuntime): string {
  return JSON.stringify([{ ...facts, detectedAt: "" }, problems]);
}

function reasonOf(before: RuntimeFacts | undefined, after: RuntimeFacts, reported: string): string {
  if (!before) return "registration";
  const isUpgrade = before.version !== after.version || before.containerRuntime?.version !== after.containerRuntime?.version;
  const isSameRuntime = before.containerRuntime?.type === after.containerRuntime?.type;
  if (isUpgrade && isSameRuntime) return "upgrade";
  return reported === "" ? "redeployment" : reported.slice(0, 32);
}
