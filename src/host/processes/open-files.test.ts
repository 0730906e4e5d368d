import { closeSync, openSync, readdirSync } from "node:fs";
import { describe, expect, it } from "vitest";
import { createHostRoot } from "../files/host-root.ts";
import { createPacer } from "../files/pacer.ts";
import { createHostTree, type TreeEntry } from "../host-tree.fixture.ts";
import { createOpenFileCounter } from "./open-files.ts";
import type { ProcessStat } from "./process-stat.ts";

const processOf = (pid: number, isKernelThread = false): ProcessStat => ({
  pid,
  startTicks: 1,
  name: "x",
  state: "S",
  cpuTicks: 0,
  majorFaults: 0,
  threads: 1,
  rssPages: 1,
  isKernelThread,
});

describe("createOpenFileCounter()", () => {
  it("counts the descriptors of this process", () => {
    const counter = createOpenFileCounter(createHostRoot());
    const before = counter.count(process.pid)!;
    const opened = Array.from({ length: 20 }, () => openSync("/dev/null", "r"));
    try {
      expect(counter.count(process.pid)! - before).toBe(20);
      // The listing itself holds one.
      expect(Math.abs(counter.count(process.pid)! - readdirSync("/proc/self/fd").length)).toBeLessThanOrEqual(1);
    } finally {
      for (const descriptor of opened) closeSync(descriptor);
    }
  });

  it("returns null for a process that has exited", () => {
    using tree = createHostTree({ "proc/self/fd/0": "" });
    expect(createOpenFileCounter(createHostRoot(tree.root)).count(7)).toBeNull();
  });

  it("lists a few processes per call if the kernel keeps no count, and forgets exited ones", async () => {
    const files: Record<string, TreeEntry> = { "proc/self/fd/0": "" };
    for (let pid = 1; pid <= 100; pid++) for (let fd = 0; fd < pid % 7; fd++) files[`proc/${pid}/fd/${fd}`] = "";
    for (let pid = 7; pid <= 100; pid += 7) files[`proc/${pid}/fd`] = { directory: true };
    using tree = createHostTree(files);
    const counter = createOpenFileCounter(createHostRoot(tree.root));
    const processes = Array.from({ length: 100 }, (_, index) => processOf(index + 1));
    expect((await counter.survey(processes, createPacer())).size).toBe(64);
    const all = await counter.survey(processes, createPacer());
    expect(all.size).toBe(100);
    for (const [pid, count] of all) expect(count).toBe(pid % 7);
    expect((await counter.survey(processes.slice(0, 3), createPacer())).size).toBe(3);
    expect((await counter.survey([], createPacer())).size).toBe(0);
  });

  it("skips kernel threads", async () => {
    const counter = createOpenFileCounter(createHostRoot());
    const counts = await counter.survey([processOf(process.pid), processOf(2, true)], createPacer());
    expect([...counts.keys()]).toEqual([process.pid]);
  });
});
