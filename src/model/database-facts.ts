/** What a database reports about itself to a read-only session: who waits for whom, how a statement is executed, what lacks an index. */

export const databaseEngines = ["postgres", "mysql", "redis"] as const;
export type DatabaseEngine = (typeof databaseEngines)[number];

/** Given by a person for one service; kept by the agent of its host and by nothing else. */
export interface DatabaseCredentials {
  engine: DatabaseEngine;
  /** Empty: the server's default user, where it has one. */
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
  /** The service at the other end of its connection; null when unknown. */
  service: string | null;
  /** `idle in transaction`, `active`; null when the role may not see it. */
  state: string | null;
  /** Its newest statement without values; null when the role may not see it. */
  statement: string | null;
  /** How long its transaction has been open. */
  openSeconds: number | null;
}

/** A session that others wait for, directly or through each other. */
export interface LockFact {
  holder: LockHolderFact;
  waiting: number;
  longestSeconds: number;
  /** Of the session that has waited longest, without values. */
  waitingStatement: string | null;
  /** Table whose rows or lock they wait for; null when unknown. */
  table: string | null;
}

/** A table that a plan reads row by row. */
export interface PlanScanFact {
  table: string;
  /** As the server estimates. */
  rows: number;
  /** Columns that the statement compares with a value, the most selective kind of comparison first. */
  columns: string[];
  /** Null when an index would not help, or when that cannot be told. */
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
  /** Definitions; at most ten. */
  indexes: string[];
  lastAnalyzed: string | null;
}

/** A statement by the server's own statistics, since these were reset. */
export interface BusyStatementFact {
  statement: string;
  calls: number;
  totalMs: number;
  meanMs: number;
  rows: number;
}

export interface BigKeyFact {
  /** Pattern of a key: parts that look like ids are left out. */
  key: string;
  type: string;
  sizeBytes: number;
}

export interface SlowCommandFact {
  command: string;
  durationUs: number;
  at: string;
}

/** Redis and what speaks its protocol. */
export interface CacheFact {
  usedBytes: number;
  /** 0: unlimited. */
  maxBytes: number;
  policy: string;
  evictedKeys: number;
  /** While the facts were read. */
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
  /** For ordinary users; null when unlimited or unknown. */
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
  /** What could not be read, and what would allow it; also what else is worth knowing. */
  notes: string[];
}

/** One database of a service at one agent. */
export interface InspectedDatabase {
  agentId: string;
  port: number;
  /** When the agent read the facts, ISO 8601: answers of the last seconds are shared. */
  readAt: string;
  facts: DatabaseFacts;
}
