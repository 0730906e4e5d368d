/** Facts for tests of the statistics; quiet by default. */

import type { DiagnosisFacts, HostFact, MeasureFact, Spread, SpreadPair, StepCounts, TimesFact } from "../model/diagnosis.ts";

export const steady = (median: number, spread = median * 0.1, count = 60): Spread => ({
  count,
  q05: median - spread,
  q25: median - spread / 2,
  median,
  q75: median + spread / 2,
  q95: median + spread,
});

export const measure = (values: Partial<MeasureFact> & Pick<MeasureFact, "service" | "before" | "after">): MeasureFact => ({
  name: "latency",
  subject: "",
  unit: "ms",
  kind: "latency",
  ...values,
});

export const times = (median: number, count = 100): TimesFact => ({
  count,
  q25: median * 0.9,
  median,
  q75: median * 1.1,
  q90: median * 1.2,
});

/** One span of the operation per trace; `records` of them have a log record. */
export const stepCounts = (traces: number, records: number): StepCounts => ({
  traces,
  spans: traces,
  spansSquared: traces,
  records,
  recordsSquared: records,
  recordsTimesSpans: records,
});

export const pair = (before: number, after: number): SpreadPair => ({ before: steady(before), after: steady(after) });

/** A quiet host with two cores. */
export const host = (values: Partial<HostFact>): HostFact => ({
  agentId: "a1",
  hostname: "vm1",
  cores: 2,
  busy: pair(0.3, 0.3),
  steal: pair(0, 0),
  cpuWait: pair(0.1, 0.1),
  ioWait: pair(0, 0),
  memoryWait: pair(0, 0),
  retransmits: pair(0, 0),
  services: ["web", "stock"],
  disks: [],
  programs: [],
  ...values,
});

export const facts = (values: Partial<DiagnosisFacts>): DiagnosisFacts => ({
  before: [{ fromMs: 0, untilMs: 3_600_000 }],
  after: { fromMs: 3_660_000, untilMs: 3_960_000 },
  measures: [],
  operations: [],
  links: [],
  steps: [],
  calls: [],
  externals: [],
  changes: [],
  hosts: [],
  limits: [],
  ...values,
});
