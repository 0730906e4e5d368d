import { describe, expect, it } from "vitest";
import { SeededRandom } from "../base/seeded-random.fixture.ts";
import type { StepFact } from "../model/diagnosis.ts";
import { stepCounts } from "./diagnosis.fixture.ts";
import { judgeSteps } from "./judge-steps.ts";

/** A call in half of all traces before, and in `now` of 1,000 traces now. */
const call = (from: [string, string], to: [string, string], now: number): StepFact => ({
  ...{ service: from[0], operation: from[1], kind: "span", childService: to[0], child: to[1], severity: "" },
  before: stepCounts(1_000, 500),
  after: stepCounts(1_000, now),
});

/** Reference implementation: the worst operation of another service that this one leads to. */
function explainedBy(steps: readonly StepFact[], worst: ReadonlyMap<string, number>, from: string): string {
  const seen = new Set([from]);
  for (const one of seen)
    for (const { service, operation, childService, child } of steps)
      if (`${service} ${operation}` === one) seen.add(`${childService} ${child}`);
  const [service] = from.split(" ");
  const others = [...seen].filter((one) => one.split(" ")[0] !== service && worst.has(one));
  return others.sort((a, b) => (worst.get(b) ?? 0) - (worst.get(a) ?? 0))[0]?.split(" ")[0] ?? "";
}

describe("judgeSteps()", () => {
  it("finds the worst operation below each, including cycles", () => {
    const random = new SeededRandom(5);
    for (let round = 0; round < 50; round++) {
      const operation = (): [string, string] => [`s${random.below(8)}`, "o"];
      const calls = new Map<string, StepFact>();
      for (let index = 0; index < 16; index++) {
        const [from, to] = [operation(), operation()];
        // Distinct counts, so that the worst is unique.
        calls.set(`${from[0]} ${to[0]}`, call(from, to, random.below(2) === 0 ? 500 : 760 + index * 10));
      }
      const steps = [...calls.values()];
      const worst = new Map<string, number>();
      for (const { service, after } of steps)
        if (after.records > 500) worst.set(`${service} o`, Math.max(worst.get(`${service} o`) ?? 0, after.records));
      const found = judgeSteps(steps);
      expect(found.map(({ service }) => `${service} o`).sort()).toEqual([...worst.keys()].sort());
      for (const { service, explainedBy: by } of found)
        expect(by, `${service} in round ${round}`).toBe(explainedBy(steps, worst, `${service} o`));
    }
  });

  it("follows each call a bounded number of times, however deep the calls are", () => {
    const steps = Array.from({ length: 10_000 }, (_, index) => call([`s${index}`, "o"], [`s${index + 1}`, "o"], 900 + (index % 7)));
    expect(judgeSteps(steps)).toHaveLength(10_000);
  });
});
