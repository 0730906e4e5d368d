import { describe, expect, it } from "vitest";
import { releaseBytes } from "./release-bytes.ts";

describe("releaseBytes()", () => {
  it("frees bytes that own their buffer", () => {
    const bytes = Buffer.alloc(64 * 1024);
    const before = process.memoryUsage().arrayBuffers;
    releaseBytes(bytes);
    expect(bytes.length).toBe(0);
    expect(process.memoryUsage().arrayBuffers).toBeLessThan(before);
  });

  it("keeps small buffers and views of shared ones", () => {
    const small = Buffer.alloc(100, 1);
    const whole = Buffer.alloc(64 * 1024, 2);
    const part = whole.subarray(8);
    releaseBytes(small);
    releaseBytes(part);
    expect(small.length).toBe(100);
    expect(whole[8]).toBe(2);
  });
});
