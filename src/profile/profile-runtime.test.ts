import { expect, it } from "vitest";
import { silentLogger } from "../base/log.ts";
import type { ProfileReport } from "./core/messages.ts";
import type { CpuSampler } from "./kernel/cpu-sampler.ts";
import { ProfileRuntime } from "./profile-runtime.ts";

/** Each drain spends CPU time. */
function busySampler(): CpuSampler & { rates: number[] } {
  const rates: number[] = [];
  return {
    rates,
    runtimes: { add: () => true, remove: () => undefined },
    setRate: async (hz) => {
      rates.push(hz);
    },
    onFilling: () => undefined,
    drain: () => {
      const { user } = process.cpuUsage();
      while (process.cpuUsage().user - user < 20_000);
    },
    takeDropped: () => 0,
    runNs: () => 0n,
    measure: () => null,
    [Symbol.asyncDispose]: async () => undefined,
  };
}

it("lowers the kernel's rate while the process exceeds its budget, and reports it", async () => {
  const sampler = busySampler();
  const reports: ProfileReport[] = [];
  // Ten minutes of budget are 0.6 ms, so one window exceeds it.
  const settings = { hz: 20, windowMs: 100, maxStacks: 10, cpuBudget: 1e-6 };
  await using runtime = new ProfileRuntime({ sampler, settings, report: (report) => reports.push(report), log: silentLogger });
  await runtime.start();
  await expect.poll(() => sampler.rates, { timeout: 20_000 }).toEqual([20, 10, 5, 0]);
  await expect.poll(() => reports.flatMap((report) => (report.kind === "state" ? [report.hz] : []))).toEqual([20, 10, 5, 0]);
  expect(reports.findLast(({ kind }) => kind === "state")).toMatchObject({ state: "paused" });
});
