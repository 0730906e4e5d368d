import type { Clock } from "../base/clock.ts";
import { CoralError } from "../base/errors.ts";
import type { Logger } from "../base/log.ts";
import type { PruneResult, SignalSlice, StoreStats } from "./agent-store.ts";
import type { Database, Opened, Transaction } from "./database.ts";
import type { Signal } from "./define-signal.ts";
import type { Engine } from "./engine.ts";
import type { LossCount } from "./loss-counts.ts";
import type { Row, SqlParameters } from "./sql-values.ts";

export interface ColonyStoreOptions {
  file: string;
  signals: readonly Signal[];
  /** What the file may hold before the oldest rows go. */
  maxBytes: number;
  clock: Clock;
  log: Logger;
}

/** Where the next pull of one agent begins. */
export interface AgentCheckpoint {
  /** Absent before the first pull. */
  epoch?: string;
  /** By signal: the highest sequence stored; 0 when none is. */
  afterSeq: ReadonlyMap<string, number>;
}

/** One agent's answer to a pull. */
export interface AgentPull {
  agentId: string;
  epoch: string;
  slices: readonly SignalSlice[];
  losses: readonly LossCount[];
}

/** What became of one AgentPull, in the order given. */
export interface PullOutcome {
  agentId: string;
  storedRows: number;
  /** Rows found missing by this pull: now in the gap ledger. */
  lostRows: number;
  /** Set when the answer was malformed; nothing of it was stored and its checkpoint stands. */
  error?: CoralError;
}

/** Rows that will never arrive. */
export interface Gap {
  /** When the colony noticed, microseconds since 1970. */
  at: number;
  agentId: string;
  signal: string;
  epoch: string;
  /** `pruned`, `before-first-pull`, `epoch-changed`, `colony-damaged`, or what the agent reported: `disk-full`, `queue-full`. */
  reason: string;
  /** How many; null when nobody can know. */
  rows: number | null;
  firstSeq: number | null;
  lastSeq: number | null;
}

export interface GapFilter {
  /** Microseconds since 1970. */
  since?: number;
  agentId?: string;
  signal?: string;
}

export interface RollupResult {
  /** Raw rows consumed, by view name (`host_1m`). */
  consumedRows: Record<string, number>;
}

/** A view that people's SQL may read. Its schema is `viewSchema`. */
export interface PublishedView {
  name: string;
  description: string;
  columns: { name: string; type: string }[];
}

/** Schema of the published views inside the colony's file; everything else there is internal. */
export const viewSchema = "views";

/** Everything that a colony keeps. */
export interface ColonyStore extends AsyncDisposable {
  readonly opened: Opened;
  readonly database: Database;
  /** From memory. With an epoch: where that one stands; without: the latest. */
  checkpoints(agentId: string, epoch?: string): AgentCheckpoint;
  /** Rows, checkpoints, gaps and losses of all agents in one transaction. A malformed answer fails only its own agent. */
  applyPulls(pulls: readonly AgentPull[]): Promise<PullOutcome[]>;
  gaps(filter?: GapFilter): Promise<Gap[]>;
  /** Consumes new raw rows into `_1m` and, each ten minutes, `_10m`. The owner calls it about once a minute. */
  rollup(): Promise<RollupResult>;
  prune(): Promise<PruneResult>;
  stats(): Promise<StoreStats>;
  publishedViews(): readonly PublishedView[];
  /** Unqualified names mean the published views. */
  query(sql: string, parameters?: SqlParameters, signal?: AbortSignal): Promise<Row[]>;
  write<T>(work: (transaction: Transaction) => Promise<T>): Promise<T>;
  close(): Promise<void>;
}

export function openColonyStore(_engine: Engine, _options: ColonyStoreOptions): Promise<ColonyStore> {
  return Promise.reject(new CoralError({ code: "unsupported", message: "Cannot open the colony's store: not built yet" }));
}
