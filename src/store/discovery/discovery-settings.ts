/** What the discovery at a colony may be told. All times in milliseconds. */
export interface DiscoverySettings {
  /** How far apart in time two ends of one connection may lie. */
  correlationWindowMs: number;
  /** A service that was not seen for this long is stale. */
  stalenessThresholdMs: number;
  /** What was not seen for this long is forgotten. */
  retentionMs: number;
  autoPromotion: { enabled: boolean; minConfidence: number; minObservationTimeMs: number };
}

export const defaultDiscoverySettings: DiscoverySettings = {
  correlationWindowMs: 5_000,
  stalenessThresholdMs: 3_600_000,
  retentionMs: 30 * 86_400_000,
  autoPromotion: { enabled: false, minConfidence: 0.9, minObservationTimeMs: 300_000 },
};

/**
 * How long an end waits for the other one before it counts as one without: agents scan each 30 s and are pulled each few seconds. Less when
 * every agent has scanned again since.
 */
export const settleAfterMs = 90_000;
/** A scan that came this much later than an end would have shown the other one. */
export const settleMarginMs = 10_000;
/** Open connections are reported anew every five minutes; after three such times without one, its end went unseen. */
export const lostSightAfterMs = 15 * 60_000;
/** An agent that was silent for longer has no older rows left to send. */
export const silentSidesMaxAgeMs = 6 * 3_600_000;
/** Addresses outside that are kept apart for one service and direction; those beyond count together as `*`. */
export const maxEndpointsPerService = 1_000;
/** A service with this many callers outside is public: single new ones are no news any more. */
export const announcedEndpointsMax = 50;
/** Ends kept at the same time; above it ended ones no longer wait for their other end. */
export const maxSides = 2_000_000;
/** Amounts are kept by this many minutes. */
export const bucketMinutes = 5;
/** Rows and ends of one transaction: they are joined in memory, which is a few hundred megabytes. */
export const rowsPerTransaction = 20_000;
/** Counters of what went wrong, in the order of their columns: all of it, and how, as far as agents can tell. */
export const failures = ["failures", "refused", "reset", "timed_out"] as const;
