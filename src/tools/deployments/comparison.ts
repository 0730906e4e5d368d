/** Thresholds and helpers shared by the comparisons of a deployment. */

import type { BuildChange } from "../schemas/deployment.ts";

export interface Comparison {
  change: Omit<BuildChange, "pValue" | "outcome">;
  pValue: number;
  /** Direction of the change; null when it is too small, too short or usual for the service. */
  outcome: BuildChange["outcome"] | null;
}

/** Smaller changes are not reported, however significant. */
export const minChange = {
  latency: 1.1,
  /** The same when the time before is too short to estimate what is usual. */
  latencyUnproven: 1.8,
  latencyUs: 100,
  errors: 1.5,
  errorsRatio: 0.005,
  /** The same when the time before is too short. */
  errorsUnproven: 0.03,
  rate: 2,
  resource: 1.25,
  resourceUnproven: 1.5,
  cpuCores: 0.05,
  memoryBytes: 32 * 1024 ** 2,
};

/** Share of the blocks after that must show the change: a burst is not a regression. */
export const minPersistent = { latency: 0.85, errors: 0.65, resource: 0.7 };
