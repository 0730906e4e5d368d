import { describe, expect, it } from "vitest";
import type { ProfileStack, ProfileWindow } from "../../profile/index.ts";
import { KnownStacks } from "./known-stacks.ts";
import { profileRows } from "./profile-rows.ts";

const time = { at: 5_000_000, mono_ms: 60_000 };

function stackOf(more: Partial<ProfileStack> = {}): ProfileStack {
  return {
    pid: 10,
    startedNs: 123_456_789_012,
    processName: "api",
    threadName: "worker",
    isKernelThread: false,
    build: "abc",
    frames: [0, 1],
    isWhole: true,
    samples: 3,
    ...more,
  };
}

const windowOf = (...stacks: ProfileStack[]): ProfileWindow => ({
  kind: "window",
  windowMs: 30_000,
  periodUs: 52_632,
  frames: [
    { name: "main", module: "api", kind: "native" },
    { name: "parse", module: "libjson.so", kind: "native" },
    { name: `${"x".repeat(300)}a`, module: "api", kind: "native" },
    { name: `${"x".repeat(300)}b`, module: "api", kind: "native" },
  ],
  stacks,
  losses: [],
  cost: { bpfNs: null, cpuNs: 0, rssBytes: 0 },
});

describe("profileRows()", () => {
  it("makes a row per process, thread and stack, with the CPU time of its samples", () => {
    const { rows, stacks } = profileRows(windowOf(stackOf()), time, () => "program:api");
    expect(rows).toEqual([
      {
        ...time,
        service: "program:api",
        pid: 10,
        start_ticks: 12_345,
        thread: "worker",
        build: "abc",
        stack: stacks[0]?.stack,
        samples: 3,
        cpu_us: 157_896,
        window_ms: 30_000,
      },
    ]);
    expect(JSON.parse(stacks[0]?.frames ?? "")).toEqual([
      ["main", "api", "native"],
      ["parse", "libjson.so", "native"],
    ]);
  });

  it("assigns equal stacks one id, and merges stacks that differ only in truncated names", () => {
    const long = (frame: number) => stackOf({ frames: [frame] });
    const { rows, stacks } = profileRows(windowOf(long(2), long(3), stackOf({ isWhole: false }), stackOf()), time, () => "api");
    expect(stacks).toHaveLength(3);
    expect(rows.map(({ samples }) => samples)).toEqual([6, 3, 3]);
  });

  it("names kernel threads and processes that no scan saw", () => {
    const { rows } = profileRows(windowOf(stackOf({ isKernelThread: true, pid: 2 }), stackOf()), time, () => undefined);
    expect(rows.map(({ service }) => service)).toEqual(["kernel", "api"]);
  });
});

describe("KnownStacks", () => {
  it("writes a stack once, and rewrites it after six hours", () => {
    let nowMs = 0;
    const known = new KnownStacks(() => nowMs);
    const rows = profileRows(windowOf(stackOf()), time, () => "api").stacks;
    expect(known.unwritten(rows)).toEqual(rows);
    known.written(rows);
    expect(known.unwritten(rows)).toEqual([]);
    nowMs += 7 * 3_600_000;
    expect(known.unwritten(rows)).toEqual(rows);
  });
});
