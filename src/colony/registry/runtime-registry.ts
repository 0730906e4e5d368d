/** Where the agents of this colony run: in memory as told last, in the store at most once a minute for each agent. */

import type { Clock } from "../../base/clock.ts";
import type { Logger } from "../../base/log.ts";
import { describeRuntimeChanges } from "../../model/runtime-changes.ts";
import type { RuntimeFacts } from "../../model/runtime-facts.ts";
import { type ColonyStore, forgetRuntime, loadRuntimes, recordEvent, storeRuntime } from "../../store/colony/index.ts";
import { type CheckedRuntime, checkRuntime } from "./check-runtime.ts";

export interface RuntimeRegistryOptions {
  store: ColonyStore;
  clock: Clock;
  log: Logger;
}

interface RuntimeEntry extends CheckedRuntime {
  /** What the store has; undefined before the first write. */
  stored: CheckedRuntime | undefined;
  /** Of the last write, monotonic. */
  storedAtMs: number;
  /** Why it differs from what is stored; undefined when it does not. */
  pending: string | undefined;
}

/** An agent whose runtime flickers is written down this often. */
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

  /** Null for an agent that does not tell. */
  of(agentId: string): CheckedRuntime | null {
    return this.#entries.get(agentId) ?? null;
  }

  /** Changes that came too soon after another to be written at once, since the start. */
  get deferred(): number {
    return this.#deferred;
  }

  /** Takes what a registration told; `reason` is the agent's own, empty for a new session. */
  async take(agentId: string, told: RuntimeFacts | null, reason: string): Promise<void> {
    const before = this.#entries.get(agentId);
    if (told === null) {
      if (!before) return;
      this.#entries.delete(agentId);
      await forgetRuntime(this.#options.store, agentId);
      return;
    }
    const checked = checkRuntime(told);
    const isSame = before?.stored !== undefined && contentOf(before.stored) === contentOf(checked);
    const entry: RuntimeEntry = {
      ...checked,
      stored: before?.stored,
      storedAtMs: before?.storedAtMs ?? Number.NEGATIVE_INFINITY,
      pending: isSame ? undefined : (before?.pending ?? reasonOf(before?.stored?.facts, told, reason)),
    };
    this.#entries.set(agentId, entry);
    if (checked.problems.length > 0 && checked.problems.join() !== before?.problems.join()) await this.#alert(agentId, checked.problems);
    if (isSame) return;
    if (this.#options.clock.monotonicMs() - entry.storedAtMs < writeIntervalMs) this.#deferred++;
    else await this.#write(agentId, entry);
  }

  /** Writes what has waited for its minute; the owner calls it every few seconds. `all`: also what has not, before closing. */
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
      const message = `Agent ${agentId} runs differently: ${changes.join(", ")}`;
      await recordEvent(store, { at: updatedAt, kind: "agent-runtime-changed", agentId, message, details: { reason: pending, changes } });
    }
  }

  async #alert(agentId: string, problems: readonly string[]): Promise<void> {
    const { store, clock, log } = this.#options;
    const message = `What agent ${agentId} tells of itself does not fit together: it ${problems.join("; it ")}`;
    log.warn(message, { agentId });
    await recordEvent(store, { at: clock.wallMs() * 1_000, kind: "agent-runtime-doubtful", agentId, message, details: { problems } });
  }
}

/** Everything but when it was found out. */
function contentOf({ facts, problems }: CheckedRuntime): string {
  return JSON.stringify([{ ...facts, detectedAt: "" }, problems]);
}

function reasonOf(before: RuntimeFacts | undefined, after: RuntimeFacts, told: string): string {
  if (!before) return "registration";
  const isUpgrade = before.version !== after.version || before.containerRuntime?.version !== after.containerRuntime?.version;
  const isSameRuntime = before.containerRuntime?.type === after.containerRuntime?.type;
  if (isUpgrade && isSameRuntime) return "upgrade";
  return told === "" ? "redeployment" : told.slice(0, 32);
}
