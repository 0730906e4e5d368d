/** Golden comparison report: colonies store it as JSON with each deployment and must read it after an upgrade. */

import { expect, it } from "vitest";
import { compareBuilds } from "../deployments/compare-builds.ts";
import { simulate } from "../deployments/simulated-service.fixture.ts";
import { buildReportSchema } from "./deployment.ts";

const golden: unknown = {
  source: "hooks",
  beforeMs: 3_600_000,
  afterMs: 1_800_000,
  requestsBefore: 21_600,
  requestsAfter: 10_800,
  comparisons: 5,
  tooFew: 1,
  alpha: 0.0025,
  changes: [
    {
      metric: "p95",
      subject: "POST /orders",
      unit: "us",
      before: 120_000,
      after: 180_000,
      effect: 0.31,
      outcome: "worse",
      pValue: 0.00012,
    },
  ],
  newEgress: ["api.example:443"],
  newErrors: [{ template: "cannot reach <*>", severity: "error", records: 12 }],
};

it("buildReportSchema reads a stored report without losing a field", () => {
  expect(buildReportSchema.parse(golden)).toEqual(golden);
});

it("compareBuilds() writes the fields of a stored report", () => {
  const routes = [{ subject: "POST /orders", requestsPerCell: 20, medianUs: 40_000, spread: 0.7, errorShare: 0.01 }];
  const report = compareBuilds(simulate({ seed: 7, routes, change: { slower: 2 } }), 4);
  const fieldsOf = (value: unknown): string[] => Object.keys(value as object).sort();
  const stored = buildReportSchema.parse(golden);
  expect(fieldsOf(report)).toEqual(fieldsOf(golden));
  expect(fieldsOf(report.changes[0])).toEqual(fieldsOf(stored.changes[0]));
});
