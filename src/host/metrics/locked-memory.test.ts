import { describe, expect, it } from "vitest";
import { lockedMapBytes, parseLockedBytes } from "./locked-memory.ts";

describe("parseLockedBytes()", () => {
  it("finds the line of a map", () => {
    expect(parseLockedBytes("pos:\t0\nmap_type:\t1\nmemlock:\t1114112\nmap_id:\t5\n")).toBe(1_114_112);
    expect(parseLockedBytes("pos:\t0\nflags:\t02\n")).toBe(0);
  });
});

describe("lockedMapBytes()", () => {
  it("returns 0 for a descriptor that is not a map or not open", () => {
    expect(lockedMapBytes(0)).toBe(0);
    expect(lockedMapBytes(1_000_000)).toBe(0);
  });
});
