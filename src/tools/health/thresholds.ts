/** Thresholds of the health rules. docs/summary.md explains each. */

export const thresholds = {
  errors: { warning: 0.05, critical: 0.25 },
  /** A small error share that is a multiple of the usual one. */
  errorsRising: { least: 0.01, errors: 10, times: 3 },
  /** Slowdown factors, each with a least difference: `minUs` for a warning, `soonUs` at the factor `critical`, `criticalUs` for critical. */
  latency: { warning: 2, critical: 5, minUs: 10_000, soonUs: 5_000, criticalUs: 20_000 },
  /** Share of the expected requests. */
  rate: { expected: 100, left: 0.3 },
  /** Share of the time spent queueing, and factor over the usual total. */
  queue: { part: 0.5, minUs: 5_000, times: 2 },
  restarts: { warning: 3, critical: 5 },
  throttled: { warning: 0.1, critical: 0.5 },
  cgroupMemory: 0.95,
  host: { cpuBusyRatio: 0.9, cpuStealRatio: 0.1, memUsedRatio: 0.95, psiCpuRatio: 0.3, psiMemoryRatio: 0.1, psiIoRatio: 0.3 },
  newErrors: 10,
  /** Log records are compared only with at least `coveredMs` of history. */
  errorRecords: { least: 20, times: 3, coveredMs: 600_000 },
  /** Records are counted once a minute; older ones are over. */
  recordsOverMs: 100_000,
  /** Deployments up to this age are mentioned. */
  recentDeploymentMs: 3_600_000,
} as const;
