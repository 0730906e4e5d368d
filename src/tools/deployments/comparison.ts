/** What the comparisons of a deployment have in common. */

import type { BuildChange } from "../schemas/deployment.ts";

export interface Comparison {
  change: Omit<BuildChange, "pValue" | "outcome">;
  pValue: number;
  /** Which way it changed; null when the change is too small, too short or usual for the service. */
  outcome: BuildChange["outcome"] | null;
}

/** Smaller changes are not worth an alert, however certain. */
export const minChange = {
  latency: 1.1,
  /** Without enough time before to know what is usual. */
  latencyUnproven: 1.8,
  latencyUs: 100,
  errors: 1.5,
  errorsRatio: 0.005,
  /** The same, without enough time before. */
  errorsUnproven: 0.03,
  rate: 2,
  resource: 1.25,
  resourceUnproven: 1.5,
  cpuCores: 0.05,
  memoryBytes: 32 * 1024 ** 2,
};

/** Share of the blocks after that must show the change: a burst is not a regression. */
export const minPersistent = { latency: 0.85, errors: 0.65, resource: 0.7 };
