import { describe, expect, it } from "vitest";
import type { DiagnosisFacts, Spread } from "../../model/diagnosis.ts";
import type { ColonyBackend } from "../contract/backend.ts";
import { colonyOf, context } from "../sample-colony.fixture.ts";
import { diagnoseTool } from "./diagnose-tool.ts";

const nowMs = Date.UTC(2026, 0, 5, 12);

const around = (median: number): Spread => ({
  ...{ count: 60, q05: median * 0.9, q25: median * 0.95, median, q75: median * 1.05, q95: median * 1.1 },
});

/** The service `stock` takes 200 ms instead of 20. */
const slowStock: ColonyBackend["diagnosisFacts"] = async (times): Promise<DiagnosisFacts> => ({
  ...times,
  measures: [
    { service: "stock", name: "latency", subject: "", unit: "ms", kind: "latency", before: around(20), after: around(200) },
    { service: "web", name: "latency", subject: "", unit: "ms", kind: "latency", before: around(20), after: around(20) },
  ],
  ...{ operations: [], links: [], steps: [], calls: [], externals: [], changes: [], hosts: [], limits: [] },
});

describe("coral_diagnose", () => {
  it("answers without the facts about databases when they cannot be read, and says so", async () => {
    const backend = colonyOf({
      nowMs: () => nowMs,
      diagnosisOnset: async () => ({ onsetMs: null, endMs: null, earlier: [], seenSinceMs: nowMs - 86_400_000 }),
      diagnosisFacts: slowStock,
      databaseTraffic: () => Promise.reject(new Error("out of memory")),
    });

    const answer = await diagnoseTool.call(backend, { since: "5m" }, context);

    expect(answer.causes.map(({ service }) => service)).toEqual(["stock"]);
    expect(answer.completeness).toMatchObject({
      complete: false,
      notes: expect.arrayContaining([{ kind: "no-data", message: "database traffic was not read: out of memory" }]),
    });
  });
});
