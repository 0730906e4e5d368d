/** What rules make, and where they draw the line. */

import type { SummaryFinding } from "../schemas/summary.ts";

export const thresholds = {
  errors: { warning: 0.05, critical: 0.25 },
  /** A share that is small in itself, and many times the usual. */
  errorsRising: { least: 0.01, errors: 10, times: 3 },
  latency: { warning: 2, critical: 5 },
  /** Of the requests that were to be expected. */
  rate: { expected: 100, left: 0.3 },
  queue: 0.5,
  restarts: { warning: 3, critical: 5 },
  throttled: { warning: 0.1, critical: 0.5 },
  cgroupMemory: 0.95,
  host: { cpuBusyRatio: 0.9, cpuStealRatio: 0.1, memUsedRatio: 0.95, psiCpuRatio: 0.3, psiMemoryRatio: 0.1, psiIoRatio: 0.3 },
  newErrors: 10,
  errorRecords: { least: 20, times: 3 },
  /** A deployment this young is worth a word. */
  recentDeploymentMs: 3_600_000,
} as const;

export function finding(
  rule: string,
  severity: SummaryFinding["severity"],
  kind: SummaryFinding["kind"],
  subject: string,
  message: string,
  value: number,
  threshold: number,
  unit: SummaryFinding["unit"],
): SummaryFinding {
  return { rule, severity, kind, subject, message, value: Number(value.toPrecision(4)), threshold, unit };
}
