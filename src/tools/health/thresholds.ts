/** Where rules draw the line. docs/summary.md explains each. */

export const thresholds = {
  errors: { warning: 0.05, critical: 0.25 },
  /** A share that is small in itself, and many times the usual. */
  errorsRising: { least: 0.01, errors: 10, times: 3 },
  /** Times as long, and by how much at least: `leastUs` for a warning, `soonUs` where it is `critical` times, `criticalUs` for critical. */
  latency: { warning: 2, critical: 5, leastUs: 10_000, soonUs: 5_000, criticalUs: 20_000 },
  /** Of the requests that were to be expected. */
  rate: { expected: 100, left: 0.3 },
  /** Of its time in the queue, and times as long as usual in all. */
  queue: { part: 0.5, leastUs: 5_000, times: 2 },
  restarts: { warning: 3, critical: 5 },
  throttled: { warning: 0.1, critical: 0.5 },
  cgroupMemory: 0.95,
  host: { cpuBusyRatio: 0.9, cpuStealRatio: 0.1, memUsedRatio: 0.95, psiCpuRatio: 0.3, psiMemoryRatio: 0.1, psiIoRatio: 0.3 },
  newErrors: 10,
  /** Records are compared only with a time of at least `coveredMs`. */
  errorRecords: { least: 20, times: 3, coveredMs: 600_000 },
  /** Records are counted once a minute; what ended before is over. */
  recordsOverMs: 100_000,
  /** A deployment this young is worth a word. */
  recentDeploymentMs: 3_600_000,
} as const;
