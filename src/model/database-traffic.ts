/** What is known of databases without credentials: their statements, and the connections of their callers. */

/** Figures for one of the two periods of a diagnosis. */
export interface StatementFigures {
  requests: number;
  perSecond: number;
  meanUs: number;
  failedRatio: number;
  /** Mean per request. */
  responseBytes: number;
}

export interface StatementTraffic {
  /** The id in the store, the label in tools. */
  service: string;
  protocol: string;
  port: number;
  /** The statement without values, or the command. */
  statement: string;
  before: StatementFigures;
  after: StatementFigures;
  /** The commonest status of those that fail in the time in question; empty: none fails. */
  failure: string;
}

/** Connections from one caller to one database, counted at several times in both periods. */
export interface PoolTraffic {
  caller: string;
  service: string;
  port: number;
  /** Maximum in the baseline. */
  openBefore: number;
  /** Minimum and maximum in the time in question. */
  openAfter: { least: number; most: number };
  /** Mean number of statements in flight: total duration divided by the length of the period. */
  busyAfter: number;
  meanUsBefore: number;
  meanUsAfter: number;
}

export interface DatabaseTraffic {
  /** Most time spent first. */
  statements: StatementTraffic[];
  pools: PoolTraffic[];
}
