/** What can be seen of databases from outside, without credentials: their statements and the connections of their callers. */

/** Of one of the two times that a diagnosis compares. */
export interface StatementFigures {
  requests: number;
  perSecond: number;
  meanUs: number;
  failedRatio: number;
  /** Per request. */
  responseBytes: number;
}

export interface StatementTraffic {
  /** As in the store; under its label in tools. */
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

/** Connections from one caller to one database, at moments of the two times. */
export interface PoolTraffic {
  caller: string;
  service: string;
  port: number;
  /** Most at one moment of what is usual. */
  openBefore: number;
  /** Fewest and most at moments of the time in question. */
  openAfter: { least: number; most: number };
  /** Statements in flight on average: their durations summed, by the time. */
  busyAfter: number;
  meanUsBefore: number;
  meanUsAfter: number;
}

export interface DatabaseTraffic {
  /** Most time spent first. */
  statements: StatementTraffic[];
  pools: PoolTraffic[];
}
