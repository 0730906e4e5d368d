import { describe, expect, it } from "vitest";
import type { ProfileFacts, StackFrame } from "../../model/profiles.ts";
import type { ProfileResult } from "../schemas/profile.ts";
import { call, messages } from "../traffic/traffic-tools.fixture.ts";

const frame = (name: string, file = "api"): StackFrame => [name, file, "native"];

function factsOf(stacks: [frames: string, samples: number, before?: number][], more: Partial<ProfileFacts> = {}): ProfileFacts {
  const sum = (index: 1 | 2): number => stacks.reduce((total, stack) => total + (stack[index] ?? 0), 0);
  return {
    stacks: stacks.map(([frames, samples, before = 0]) => ({
      frames: frames.split(";").map((name) => frame(name)),
      isWhole: true,
      samples,
      cpuUs: samples * 50_000,
      samplesBefore: before,
      cpuUsBefore: before * 50_000,
    })),
    samples: sum(1),
    cpuUs: sum(1) * 50_000,
    samplesBefore: sum(2),
    cpuUsBefore: sum(2) * 50_000,
    instances: 1,
    fromMs: 0,
    untilMs: 600_000,
    losses: [],
    ...more,
  };
}

const ask = (input: object, facts: ProfileFacts) =>
  call<ProfileResult>("coral_profile_functions", { service: "api", ...input }, { profile: async () => facts });

const stacks: [string, number, number][] = [
  ["main;serve;hash", 600, 100],
  ["main;serve;hash;hash", 100, 100],
  ["main;serve;render", 200, 700],
  ["main;idle", 100, 100],
];

describe("coral_profile_functions", () => {
  it("gives each function its self and total share, counting recursion once", async () => {
    const answer = await ask({}, factsOf(stacks));
    expect(answer.functions.map(({ name, self, total }) => [name, self, total])).toEqual([
      ["hash", 0.7, 0.7],
      ["render", 0.2, 0.2],
      ["idle", 0.1, 0.1],
      ["main", 0, 1],
      ["serve", 0, 0.9],
    ]);
    expect(answer).toMatchObject({
      samples: 1_000,
      cores: expect.closeTo(0.0833, 4),
      instances: 1,
      whole: 1,
      named: 1,
      functionsTotal: 5,
      tree: [],
      stacks: [],
    });
    expect(messages(answer)).toEqual([]);
  });

  it("compares with a baseline, and separates change from chance", async () => {
    const answer = await ask({ baseline: "1d" }, factsOf([...stacks, ["main;other", 3, 1]]));
    expect(answer.functions.map(({ name, significant }) => [name, significant])).toEqual([
      ["render", true],
      ["hash", true],
      ["other", false],
      ["serve", false],
      ["idle", false],
      ["main", false],
    ]);
    expect(answer.functions[1]?.change).toBeCloseTo(0.498, 3);
    expect(answer.functions[1]?.before?.total).toBeCloseTo(0.2, 2);
  });

  it("shows call paths, most CPU first, and every stack on request", async () => {
    const answer = await ask({ tree: true, stacks: true, baseline: "1h" }, factsOf(stacks));
    expect(answer.tree.map(({ depth, name, total }) => `${depth} ${name} ${total}`)).toEqual([
      "0 main 1",
      "1 serve 0.9",
      "2 hash 0.7",
      "3 hash 0.1",
      "2 render 0.2",
      "1 idle 0.1",
    ]);
    expect(answer.tree[2]?.change).toBeCloseTo(0.5);
    expect(answer.stacks[0]).toEqual({ frames: ["main", "serve", "hash"], samples: 600 });
  });

  it("notes what it could not see", async () => {
    const facts = factsOf([["api+0x10;[jit]", 10]], { losses: [{ loss: "ring-full", count: 7 }] });
    const answer = await ask(
      { baseline: "1h" },
      { ...facts, stacks: facts.stacks.map((one) => ({ ...one, isWhole: false, frames: [["[jit]", "", "unknown"]] })) },
    );
    expect(messages(answer)).toEqual([
      "7 samples of these hosts dropped: the ring buffer was full",
      "only 10 samples: shares are coarse; widen since",
      "no samples in the baseline: changes are unknown",
      "100% of the samples have a truncated stack: outer callers are missing",
      "100% of the frames have no name: the program is stripped, or generates code at run time",
    ]);
  });

  it("rejects an unknown service", async () => {
    await expect(ask({}, factsOf([]))).rejects.toMatchObject({ code: "not-found" });
  });
});
