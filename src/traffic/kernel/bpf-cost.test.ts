import { describe, expect, it } from "vitest";
import { BpfCostMeter } from "./bpf-cost.ts";

/** Two programs that the test runs by hand. */
function fakePrograms(isAllowed = true) {
  const programs = [
    { runNs: 100n, runs: 1n },
    { runNs: 0n, runs: 0n },
  ];
  let open = 0;
  return {
    stats: () => programs.map((program) => ({ ...program })),
    enableStats: () => {
      if (!isAllowed) return null;
      open++;
      return { [Symbol.dispose]: () => void open-- };
    },
    run: (index: 0 | 1, ns: bigint, runs: bigint) => {
      const program = programs[index];
      if (program === undefined) return;
      program.runNs += ns;
      program.runs += runs;
    },
    openCount: () => open,
  };
}

describe("BpfCostMeter", () => {
  it("scales a measured part of a window to the whole", () => {
    const programs = fakePrograms();
    const meter = new BpfCostMeter(programs);
    meter.begin(1000);
    meter.begin(1100);
    expect(programs.openCount()).toBe(1);
    programs.run(0, 5000n, 10n);
    programs.run(1, 1000n, 2n);
    meter.end(2000);
    expect(programs.openCount()).toBe(0);
    programs.run(0, 9999n, 9n);
    expect(meter.take(10_000)).toEqual({ ns: 60_000, runs: 120 });
  });

  it("returns null when nothing was measured, or the kernel refuses", () => {
    const meter = new BpfCostMeter(fakePrograms());
    expect(meter.take(10_000)).toEqual({ ns: null, runs: null });
    const refused = new BpfCostMeter(fakePrograms(false));
    refused.begin(0);
    refused.end(1000);
    expect(refused.take(10_000)).toEqual({ ns: null, runs: null });
  });
});
