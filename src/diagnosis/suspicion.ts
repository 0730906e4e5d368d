/** A service that one statistic points to. */

/** Causes found by statistics. Database causes need facts about the database. */
export type CauseKind =
  | "resource"
  | "slow"
  | "failing"
  | "slow-code"
  | "slow-link"
  | "changed-path"
  | "more-traffic"
  | "host"
  | "hot-code"
  | "blocked-thread"
  | "waiting"
  | "disk-wait"
  | "packet-loss"
  | "cpu-limit"
  | "out-of-memory"
  | "down"
  | DatabaseCauseKind;
type DatabaseCauseKind = "slow-statement" | "missing-index" | "lock-wait" | "pool-exhausted" | "connections-full" | "evictions";

export interface Suspicion {
  service: string;
  kind: CauseKind;
  /** Comparable between all kinds; 0 or less means nothing unusual. */
  score: number;
  /** The score before subtracting what callees explain. */
  rawScore: number;
  /** The unusual route, operation, link, log pattern or metric. */
  pointer: string;
  /** One sentence with figures. */
  statement: string;
  figures: { name: string; unit: string; before: number; after: number };
  /** The callee that explains it best; empty if none does. */
  explainedBy: string;
}
