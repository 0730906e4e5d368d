/** Settings of the colony's discovery. All times in milliseconds. */
export interface DiscoverySettings {
  /** Maximum time between the two ends' reports of one connection. */
  correlationWindowMs: number;
  /** A service that was not seen for this long is stale. */
  stalenessThresholdMs: number;
  /** What was not seen for this long is deleted. */
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
/** A scan this much later than an end would have shown the other one. */
export const settleMarginMs = 10_000;
/** Open connections are reported every five minutes; after three intervals without a report, their end went unseen. */
export const lostSightAfterMs = 15 * 60_000;
/** An agent that was silent for longer has no older rows left to send. */
export const silentSidesMaxAgeMs = 6 * 3_600_000;
/** Outside addresses kept per service and direction; further ones count together as `*`. */
export const maxEndpointsPerService = 1_000;
/** A service with this many outside callers is public: a single new caller is no longer an event. */
export const announcedEndpointsMax = 50;
/** Limit on ends kept at once; above it, ended ones no longer wait for their other end. */
export const maxSides = 2_000_000;
/** Width of the amount buckets in minutes. */
export const bucketMinutes = 5;
/** Rows and ends per transaction: they are joined in memory, a few hundred megabytes. */
export const rowsPerTransaction = 20_000;
/** Failure counters, in the order of their columns: the total, then by cause as far as agents can determine it. */
export const failures = ["failures", "refused", "reset", "timed_out"] as const;
