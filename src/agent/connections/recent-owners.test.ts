import { describe, expect, it } from "vitest";
import type { Owner } from "./connection-owner.ts";
import { createRecentOwners } from "./recent-owners.ts";

const ownerOf = (service: string): Owner => ({ service, pid: 7, startTicks: 1, attribution: "process_fd" });

function setUp() {
  const clock = { nowMs: 0, wallMs: () => clock.nowMs, monotonicMs: () => clock.nowMs };
  return { clock, owners: createRecentOwners(clock) };
}

describe("createRecentOwners()", () => {
  it("finds the owner that was added last", () => {
    const { owners } = setUp();
    expect(owners.find(7)).toBeUndefined();
    owners.add(7, ownerOf("cron"));
    owners.add(7, ownerOf("curl"));
    expect(owners.find(7)).toEqual(ownerOf("curl"));
    expect(owners.find(8)).toBeUndefined();
  });

  it("forgets an owner two minutes after it was last added, because pids are reused", () => {
    const { clock, owners } = setUp();
    owners.add(7, ownerOf("cron"));
    clock.nowMs = 60_000;
    owners.add(8, ownerOf("curl"));
    clock.nowMs = 119_999;
    expect(owners.find(7)).toEqual(ownerOf("cron"));
    clock.nowMs = 120_000;
    expect([owners.find(7), owners.find(8)]).toEqual([undefined, ownerOf("curl")]);
    owners.add(8, ownerOf("curl"));
    clock.nowMs = 239_999;
    expect(owners.find(8)).toEqual(ownerOf("curl"));
  });

  it("does not attribute what began after a scan missed a process to that process", () => {
    const { owners } = setUp();
    owners.add(7, ownerOf("cron"));
    owners.scanned(() => true, 10n);
    expect(owners.find(7, 11n)).toEqual(ownerOf("cron"));
    owners.scanned(({ startTicks }) => startTicks !== 1, 20n);
    owners.scanned(() => false, 30n);
    expect([owners.find(7, 20n), owners.find(7, 21n)]).toEqual([ownerOf("cron"), undefined]);
    owners.add(7, ownerOf("next"));
    expect(owners.find(7, 21n)).toEqual(ownerOf("next"));
  });

  it("keeps the 4,096 owners added most recently", () => {
    const { owners } = setUp();
    for (let pid = 1; pid <= 4_096; pid++) owners.add(pid, ownerOf(`job-${pid}`));
    owners.add(1, ownerOf("again"));
    owners.add(5_000, ownerOf("new"));
    expect([owners.find(2), owners.find(1), owners.find(3), owners.find(5_000)]).toEqual([
      undefined,
      ownerOf("again"),
      ownerOf("job-3"),
      ownerOf("new"),
    ]);
  });
});
