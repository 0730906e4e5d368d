/** What a database reports about itself to a read-only session: lock waits, query plans, missing indexes. */

export const databaseEngines = ["postgres", "mysql", "redis"] as const;
export type DatabaseEngine = (typeof databaseEngines)[number];

/** Credentials that a person stored for one service. Only the agent of its host has them. */
export interface DatabaseCredentials {
  engine: DatabaseEngine;
  /** Empty: the server's default user, if it has one. */
  user: string;
  password: string;
  /** Empty: named like the user (Postgres), or none. */
  database: string;
  /** Directory of the server's unix socket, or the socket file of MariaDB; empty: TCP. */
  socket: string;
}

export interface LockHolderFact {
  pid: number;
  user: string;
  application: string;
  /** Null over a unix socket. */
  clientAddress: string | null;
  clientPort: number | null;
  /** The service that owns the client's end; null when unknown. */
  service: string | null;
  /** `idle in transaction`, `active`; null if the role lacks permission to see it. */
  state: string | null;
  /** Its newest statement without values; null if the role lacks permission to see it. */
  statement: string | null;
  /** Age of its transaction. */
  openSeconds: number | null;
}

/** A session that blocks others, directly or through each other. */
export interface LockFact {
  holder: LockHolderFact;
  waiting: number;
  longestSeconds: number;
  /** Statement of the session that has waited longest, without values. */
  waitingStatement: string | null;
  /** Table of the contended rows or lock; null when unknown. */
  table: string | null;
}

/** A table that a plan scans sequentially. */
export interface PlanScanFact {
  table: string;
  /** Estimate of the server. */
  rows: number;
  /** Columns that the statement compares with a value, the most selective comparison first. */
  columns: string[];
  /** The CREATE INDEX statement; null if an index would not help, or if that is unknown. */
  advice: string | null;
}

export interface PlanFact {
  statement: string;
  scans: PlanScanFact[];
  /** Indexes that the plan uses. */
  indexes: string[];
  cost: number | null;
}

export interface TableFact {
  table: string;
  rows: number;
  deadRows: number | null;
  sequentialScans: number | null;
  indexScans: number | null;
  sizeBytes: number | null;
  /** Index definitions; at most ten. */
  indexes: string[];
  lastAnalyzed: string | null;
}

/** A statement from the server's own statistics, since their last reset. */
export interface BusyStatementFact {
  statement: string;
  calls: number;
  totalMs: number;
  meanMs: number;
  rows: number;
}

export interface BigKeyFact {
  /** Pattern of the key: parts that look like ids are replaced. */
  key: string;
  type: string;
  sizeBytes: number;
}

export interface SlowCommandFact {
  command: string;
  durationUs: number;
  at: string;
}

/** Redis and compatible servers. */
export interface CacheFact {
  usedBytes: number;
  /** 0: unlimited. */
  maxBytes: number;
  policy: string;
  evictedKeys: number;
  /** Measured while the facts were read. */
  evictedPerSecond: number;
  blockedClients: number;
  keys: number;
  keysSampled: number;
  bigKeys: BigKeyFact[];
  slowCommands: SlowCommandFact[];
}

export interface DatabaseConnectionsFact {
  open: number;
  active: number;
  idleInTransaction: number;
  /** Limit for ordinary users; null when unlimited or unknown. */
  max: number | null;
}

export interface DatabaseClientFact {
  /** Application name, else user. */
  client: string;
  address: string | null;
  open: number;
  active: number;
  idleInTransaction: number;
}

export interface DatabaseFacts {
  engine: DatabaseEngine;
  version: string;
  user: string;
  database: string;
  /** Null: unknown. */
  canWrite: boolean | null;
  connections: DatabaseConnectionsFact | null;
  clients: DatabaseClientFact[];
  locks: LockFact[];
  plan: PlanFact | null;
  tables: TableFact[];
  statements: BusyStatementFact[];
  cache: CacheFact | null;
  /** What could not be read and how to allow it, and other remarks. */
  notes: string[];
}

/** One database of a service at one agent. */
export interface InspectedDatabase {
  agentId: string;
  port: number;
  /** When the agent read the facts, ISO 8601. Results are cached for a few seconds. */
  readAt: string;
  facts: DatabaseFacts;
}
