/** Settings of discovery at the colony. All times are in milliseconds. */
export interface DiscoverySettings {
  /** Maximum time between the two ends' reports of one connection. */
  correlationWindowMs: number;
  /** A service not seen for this long is stale. */
  stalenessThresholdMs: number;
  /** Data not seen for this long is deleted. */
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
 * How long an end waits for its peer before it counts as unpaired: agents scan every 30 s and are pulled every few seconds. Shorter if
 * every agent has scanned again since.
 */
export const settleAfterMs = 90_000;
/** A scan at least this much later would have shown the peer. */
export const settleMarginMs = 10_000;
/** Open connections are reported every five minutes. After three intervals without a report, their close was missed. */
export const lostSightAfterMs = 15 * 60_000;
/** An agent silent for longer has no older rows left to send. */
export const silentSidesMaxAgeMs = 6 * 3_600_000;
/** Limit on external addresses per service and direction; further ones are counted together as `*`. */
export const maxEndpointsPerService = 1_000;
/** A service with this many external callers is public: one more caller is not an event. */
export const announcedEndpointsMax = 50;
/** Limit on ends kept at once. Above it, closed ends no longer wait for their peer. */
export const maxSides = 2_000_000;
/** Width of time buckets in minutes. */
export const bucketMinutes = 5;
/** Rows and ends per transaction. Joins run in memory and take a few hundred megabytes. */
export const rowsPerTransaction = 20_000;
/** Failure counters in column order: the total, then by cause as far as agents can determine it. */
export const failures = ["failures", "refused", "reset", "timed_out"] as const;
