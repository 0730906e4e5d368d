/** A service that one statistic points at. */

/** What the statistics find; the database causes are found by what is known of a database. */
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
  /** Comparable between all kinds; 0 or less: nothing unusual. */
  score: number;
  /** The score without what callees explain. */
  rawScore: number;
  /** Route, operation, link, log pattern or metric that is unusual. */
  pointer: string;
  /** One sentence with figures. */
  statement: string;
  figures: { name: string; unit: string; before: number; after: number };
  /** The callee that explains it best; empty when none does. */
  explainedBy: string;
}
