import { describe, expect, it } from "vitest";
import type { SummaryFacts } from "../../model/summary.ts";
import { hostNoise } from "./host-noise.ts";
import { baselineOf, type MadeWindow, routeOf, sampleNowMs, steadily } from "./route-health.fixture.ts";

const usual = { cpuBusyRatio: 0.3, psiCpuRatio: 0.02, psiMemoryRatio: 0, psiIoRatio: 0 };
const hostOf = (cpuBusyRatio: number): SummaryFacts["hosts"][number] => ({
  ...{ agentId: "web-1", cpuBusyRatio, cpuStealRatio: 0, memUsedRatio: 0.5, psiCpuRatio: 0, psiMemoryRatio: 0, psiIoRatio: 0, oomKills: 0 },
  usual,
});
const place = { agentId: "web-1", instances: 1, isPresent: true, isStale: false, isListening: true, isReplaced: false, seenMs: 1 };

/** Services with one route each, of which the last minute is as given; five minutes say less. */
function noiseOf(windows: readonly MadeWindow[], cpuBusyRatio = 0.95, usualP95Us = 5_000): { addedUs: number; times: number } | undefined {
  const services = windows.map((_, index) => `service-${index}`);
  const before = baselineOf({ p50Us: 2_000, p95Us: usualP95Us, p95HighUs: usualP95Us });
  const noise = hostNoise({
    nowMs: sampleNowMs,
    routes: windows.map((window, index) => routeOf(services[index] ?? "", steadily(window), { p95Us: 5_500, before, yesterday: null })),
    places: services.map((service) => ({ ...place, service, health: null, healthDetail: null })),
    hosts: [hostOf(cpuBusyRatio)],
  });
  return noise.get("web-1");
}

const slower: MadeWindow = { p50Us: 2_000, p95Us: 14_000 };
const much: MadeWindow = { p50Us: 2_000, p95Us: 90_000 };
const asEver: MadeWindow = { p50Us: 2_000, p95Us: 5_000 };

describe("hostNoise()", () => {
  it("is what the last minute added to most routes of a busy host", () => {
    const noise = noiseOf([slower, slower, slower, slower, much, slower]);
    expect(noise?.times).toBe(2);
    expect(noise?.addedUs).toBeGreaterThan(8_500);
    expect(noise?.addedUs).toBeLessThan(9_500);
  });

  it("is nothing of what a third of the routes does not share", () => {
    expect(noiseOf([asEver, asEver, asEver, much, much, much])?.times).toBeCloseTo(1, 1);
  });

  it("is at least a time slice: a few milliseconds mean nothing on a busy host", () => {
    expect(noiseOf([asEver, asEver, asEver, asEver])?.addedUs).toBe(5_000);
  });

  it("is bounded: a database that all need fills a host, too", () => {
    expect(noiseOf([much, much, much, much, much])).toEqual({ addedUs: 20_000, times: 2 });
  });

  it("is read off slower routes where a host is always busy", () => {
    expect(noiseOf([much, much, much, much, much], 0.95, 30_000)?.addedUs).toBe(20_000);
    expect(noiseOf([much, much, much, much, much], 0.95, 60_000)?.addedUs).toBe(5_000);
  });

  it("needs a busy host and several services", () => {
    expect(noiseOf([much, much, much, much, much], 0.4)).toBeUndefined();
    expect(noiseOf([much, much, much])?.times).toBe(1);
  });
});
