import { describe, expect, it } from "vitest";
import { damagedTexts } from "../../base/damaged-texts.fixture.ts";
import { hasSaneNumbers } from "../host-tree.fixture.ts";
import { parseProcStat } from "./proc-stat.ts";

const linux6 = `cpu  25879 12 20132 302953 1543 7 136 49 3 1
cpu0 12892 5 10112 151862 497 3 14 19 2 1
cpu1 12987 7 10020 151091 1046 4 122 30 1 0
intr 177458 0 0 0 0 ${"0 ".repeat(500)}
ctxt 1424173
btime 1794716935
processes 14727
procs_running 3
procs_blocked 2
softirq 1 2 3
`;
const linux24 = "cpu  100 0 50 1000\ncpu0 100 0 50 1000\nctxt 5\nprocesses 7\n";

describe("parseProcStat()", () => {
  it("reads totals, cores and counters", () => {
    const stat = parseProcStat(linux6);
    expect(stat.total).toEqual({ user: 25879, nice: 12, system: 20132, idle: 302953, iowait: 1543, irq: 7, softirq: 136, steal: 49 });
    expect([...stat.cores.keys()]).toEqual([0, 1]);
    expect(stat.cores.get(1)).toMatchObject({ user: 12987, softirq: 122, steal: 30 });
    expect(stat).toMatchObject({ contextSwitches: 1424173, forks: 14727, processesRunning: 3, processesBlocked: 2 });
  });

  it("reads 0 for the fields that an old kernel does not have", () => {
    expect(parseProcStat(linux24).total).toEqual({ user: 100, nice: 0, system: 50, idle: 1000, iowait: 0, irq: 0, softirq: 0, steal: 0 });
  });

  it("keeps the numbers of cores when some are offline", () => {
    const stat = parseProcStat("cpu  9 0 0 9\ncpu0 1 0 0 1\ncpu5 2 0 0 2\ncpu13 6 0 0 6\n");
    expect([...stat.cores.keys()]).toEqual([0, 5, 13]);
  });

  it("tolerates malformed input", () => {
    for (const text of damagedTexts([linux6, linux24], 1))
      expect(hasSaneNumbers(parseProcStat(text)), JSON.stringify(text.slice(0, 200))).toBe(true);
  });
});
