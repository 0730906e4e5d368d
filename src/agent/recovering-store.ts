import { CoralError } from "../base/errors.ts";
import type { Logger } from "../base/log.ts";
import { type AgentStore, type AgentStoreOptions, openAgentStore } from "../store/agent/index.ts";
import { type Engine, type Opened, type Row, type SqlParameters } from "../store/engine/index.ts";
import { type AgentSegments } from "../store/segments/index.ts";
import { type Columns, type RowOf, type Signal } from "../store/signals/index.ts";
import {
  type LossCount,
  type PruneResult,
  type ReadLimits,
  type SeqRange,
  type SignalHead,
  type SignalSlice,
  type StoreStats,
} from "../store/tables/index.ts";

export interface RecoveringStoreOptions extends AgentStoreOptions {
  /** Called after a damaged store was replaced: the epoch has changed. */
  onReplaced: (opened: Opened) => void;
  /** Called after each append that stored rows, and each that failed. */
  onStored: (signal: string) => void;
  onRefused: (signal: string, failure: CoralError) => void;
}

/**
 * The agent's store, replaced by an empty one when its file turns out to be damaged while in use: otherwise one bad block would block every
 * pull until a restart. The damaged file is kept; the new epoch shows the colony that rows were lost.
 */
export async function openRecoveringStore(engine: Engine, options: RecoveringStoreOptions): Promise<AgentStore> {
  return new RecoveringStore(engine, options, await openAgentStore(engine, options));
}

/** Every method runs through `#use`, which replaces the store when an operation fails with `corrupt`. */
class RecoveringStore implements AgentStore {
  readonly #engine: Engine;
  readonly #options: RecoveringStoreOptions;
  #store: AgentStore;
  /** Set from the detection of damage until the store is replaced. */
  #damage: CoralError | undefined;
  #recovering: Promise<void> | undefined;
  #closed = false;

  constructor(engine: Engine, options: RecoveringStoreOptions, store: AgentStore) {
    this.#engine = engine;
    this.#options = options;
    this.#store = store;
  }

  get epoch(): string {
    return this.#store.epoch;
  }

  get opened(): Opened {
    return this.#store.opened;
  }

  get segments(): AgentSegments | undefined {
    return this.#store.segments;
  }

  async append<C extends Columns>(signal: Signal<C>, rows: readonly RowOf<C>[]): Promise<SeqRange> {
    try {
      const range = await this.#use((store) => store.append(signal, rows));
      if (rows.length > 0) this.#options.onStored(signal.name);
      return range;
    } catch (error) {
      this.#options.onRefused(signal.name, CoralError.from(error));
      throw error;
    }
  }

  heads(): ReadonlyMap<string, SignalHead> {
    return this.#store.heads();
  }

  readAfter(signal: string, afterSeq: number, limits: ReadLimits): Promise<SignalSlice> {
    return this.#use((store) => store.readAfter(signal, afterSeq, limits));
  }

  losses(): LossCount[] {
    return this.#store.losses();
  }

  prune(): Promise<PruneResult> {
    return this.#use((store) => store.prune());
  }

  stats(): Promise<StoreStats> {
    return this.#use((store) => store.stats());
  }

  query(sql: string, parameters?: SqlParameters, signal?: AbortSignal): Promise<Row[]> {
    return this.#use((store) => store.query(sql, parameters, signal));
  }

  async close(): Promise<void> {
    this.#closed = true;
    await Promise.allSettled([this.#recovering]);
    await this.#store.close();
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }

  async #use<T>(work: (store: AgentStore) => Promise<T>): Promise<T> {
    if (this.#damage) await this.#recover(this.#damage);
    const store = this.#store;
    try {
      return await work(store);
    } catch (error) {
      const failure = CoralError.from(error);
      if (failure.code === "corrupt" && store === this.#store && !this.#closed) this.#damage ??= failure;
      throw error;
    }
  }

  /** Rejects when the store cannot be opened; the next use retries. */
  #recover(damage: CoralError): Promise<void> {
    this.#recovering ??= this.#reopen(damage).finally(() => {
      this.#recovering = undefined;
    });
    return this.#recovering;
  }

  async #reopen(damage: CoralError): Promise<void> {
    const log: Logger = this.#options.log;
    log.error(`store damaged: ${damage.message}; replacing it by an empty one`);
    await this.#store.close();
    this.#store = await openAgentStore(this.#engine, { ...this.#options, discard: damage.message });
    this.#damage = undefined;
    this.#options.onReplaced(this.#store.opened);
  }
}
