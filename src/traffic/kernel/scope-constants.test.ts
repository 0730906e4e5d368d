import { describe, expect, it } from "vitest";
import { scopeConstants } from "./scope-constants.ts";

describe("scopeConstants()", () => {
  it("limits an agent in a nested pid namespace to that namespace", () => {
    expect(scopeConstants({ inode: 4_026_532_201, isFirst: false })).toEqual({ pid_namespace_inode: 4_026_532_201 });
  });

  it("keeps the whole host in scope in the initial namespace, and where there are none", () => {
    expect(scopeConstants({ inode: 4_026_531_836, isFirst: true })).toEqual({ pid_namespace_inode: 0 });
    expect(scopeConstants(null)).toEqual({ pid_namespace_inode: 0 });
  });
});
