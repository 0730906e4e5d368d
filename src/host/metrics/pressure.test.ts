import { describe, expect, it } from "vitest";
import { damagedTexts } from "../../base/damaged-texts.fixture.ts";
import { createHostRoot } from "../files/host-root.ts";
import { createHostTree, hasSaneNumbers } from "../host-tree.fixture.ts";
import { parsePressure, readPressure } from "./pressure.ts";

describe("readPressure()", () => {
  const both = "some avg10=1.57 avg60=0.86 avg300=0.46 total=7701103\nfull avg10=0.00 avg60=0.00 avg300=0.00 total=42\n";
  it("reads totals, and null for the line that kernels before 5.13 do not have for the CPU", () => {
    using tree = createHostTree({ "proc/pressure/cpu": both.split("\n")[0]!, "proc/pressure/memory": both, "proc/pressure/io": both });
    expect(readPressure(createHostRoot(tree.root))).toEqual({
      cpu: { someUs: 7701103, fullUs: null },
      memory: { someUs: 7701103, fullUs: 42 },
      io: { someUs: 7701103, fullUs: 42 },
    });
  });

  it("returns nulls if the kernel has no PSI", () => {
    using tree = createHostTree();
    const none = { someUs: null, fullUs: null };
    expect(readPressure(createHostRoot(tree.root))).toEqual({ cpu: none, memory: none, io: none });
  });

  it("tolerates malformed input", () => {
    for (const text of damagedTexts([both], 5)) expect(hasSaneNumbers(parsePressure(text)), JSON.stringify(text)).toBe(true);
  });
});
