import { describe, expect, it } from "vitest";
import { createCallerMemory } from "./caller-memory.ts";
import type { Owner } from "./connection-owner.ts";

const ownerOf = (service: string): Owner => ({ service, pid: 7, startTicks: 1, attribution: "process_fd" });

function memoryAt() {
  const clock = { nowMs: 0, wallMs: () => clock.nowMs, monotonicMs: () => clock.nowMs };
  return { clock, memory: createCallerMemory(clock) };
}

describe("createCallerMemory()", () => {
  it("knows who made connections lately, by what was said last", () => {
    const { memory } = memoryAt();
    expect(memory.find(7)).toBeUndefined();
    memory.remember(7, ownerOf("cron"));
    memory.remember(7, ownerOf("curl"));
    expect(memory.find(7)).toEqual(ownerOf("curl"));
    expect(memory.find(8)).toBeUndefined();
  });

  it("forgets after two minutes without a word, so that a number that is given again has no name", () => {
    const { clock, memory } = memoryAt();
    memory.remember(7, ownerOf("cron"));
    clock.nowMs = 60_000;
    memory.remember(8, ownerOf("curl"));
    clock.nowMs = 119_999;
    expect(memory.find(7)).toEqual(ownerOf("cron"));
    clock.nowMs = 120_000;
    expect([memory.find(7), memory.find(8)]).toEqual([undefined, ownerOf("curl")]);
    memory.remember(8, ownerOf("curl"));
    clock.nowMs = 239_999;
    expect(memory.find(8)).toEqual(ownerOf("curl"));
  });

  it("keeps 4,096 at most, those that were heard of last", () => {
    const { memory } = memoryAt();
    for (let pid = 1; pid <= 4_096; pid++) memory.remember(pid, ownerOf(`job-${pid}`));
    memory.remember(1, ownerOf("again"));
    memory.remember(5_000, ownerOf("new"));
    expect([memory.find(2), memory.find(1), memory.find(3), memory.find(5_000)]).toEqual([
      undefined,
      ownerOf("again"),
      ownerOf("job-3"),
      ownerOf("new"),
    ]);
  });
});
