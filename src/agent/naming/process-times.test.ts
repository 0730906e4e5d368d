import { expect, it } from "vitest";
import { startTicksOf } from "../../host/index.ts";
import { createProcessTimes } from "./process-times.ts";

const times = (uptimeS: number) => createProcessTimes({ ticksPerS: 100, uptimeS: () => uptimeS, nowNs: () => 500_000_000_000n });

it("converts start ticks to CLOCK_MONOTONIC, which does not count suspended time", () => {
  expect(times(500).startedNs(40_000)).toBe(399_950_000_000n);
  expect(times(1_500).startedNs(140_000)).toBe(399_950_000_000n);
});

it("returns null if the uptime is not the kernel's", () => {
  expect(times(100).startedNs(40_000)).toBeNull();
});

it("agrees with the start of this process", () => {
  const started = createProcessTimes({ ticksPerS: 100 }).startedNs(Number(startTicksOf(process.pid)));
  const ageS = Number(process.hrtime.bigint() - (started ?? 0n)) / 1e9;
  expect(Math.abs(ageS - process.uptime())).toBeLessThan(5);
});
