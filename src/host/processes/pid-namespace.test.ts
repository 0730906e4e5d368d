import { readlinkSync } from "node:fs";
import { describe, expect, it } from "vitest";
import { ownPidNamespace } from "./pid-namespace.ts";

describe("ownPidNamespace()", () => {
  it("matches the link of this process", () => {
    const inode = Number(/\[(\d+)\]/.exec(readlinkSync("/proc/self/ns/pid"))?.[1]);
    expect(ownPidNamespace()).toEqual({ inode, isFirst: inode === 4_026_531_836 });
  });

  it("is null if the kernel does not report it", () => {
    expect(ownPidNamespace("/nonexistent")).toBe(null);
  });
});
