import { execFileSync } from "node:child_process";
import { readFileSync } from "node:fs";
import { describe, expect, it, vi } from "vitest";
import { damagedTexts } from "../../base/damaged-texts.fixture.ts";
import { hasCommand, hasSaneNumbers } from "../host-tree.fixture.ts";
import { parseMemInfo } from "./meminfo.ts";

const kib = 1024;
const linux6 = `MemTotal:       24684100 kB
MemFree:         7662928 kB
MemAvailable:   23173376 kB
Buffers:            1652 kB
Cached:         12160800 kB
SwapCached:            0 kB
Dirty:               196 kB
Shmem:             12772 kB
SReclaimable:      30764 kB
SwapTotal:       2097148 kB
SwapFree:        1048574 kB
HugePages_Total:       0
Hugepagesize:       2048 kB
`;
const linux310 =
  "MemTotal: 1000 kB\nMemFree: 100 kB\nBuffers: 10 kB\nCached: 300 kB\nShmem: 50 kB\nSReclaimable: 20 kB\nSwapTotal: 0 kB\nSwapFree: 0 kB\n";

describe("parseMemInfo()", () => {
  it("returns bytes", () => {
    expect(parseMemInfo(linux6)).toEqual({
      totalBytes: 24684100 * kib,
      freeBytes: 7662928 * kib,
      availableBytes: 23173376 * kib,
      cachedBytes: (1652 + 12160800 + 30764) * kib,
      dirtyBytes: 196 * kib,
      swapTotalBytes: 2097148 * kib,
      swapUsedBytes: (2097148 - 1048574) * kib,
    });
  });

  it("estimates available memory if the kernel does not report it", () => {
    expect(parseMemInfo(linux310).availableBytes).toBe((100 + 10 + 300 + 20 - 50) * kib);
  });

  it("tolerates malformed input", () => {
    for (const text of damagedTexts([linux6, linux310], 2)) expect(hasSaneNumbers(parseMemInfo(text)), JSON.stringify(text)).toBe(true);
  });

  it.skipIf(!hasCommand("free"))("agrees with free(1) on this machine", async () => {
    // Other processes run between the two reads: one match within several attempts is enough.
    await vi.waitFor(
      () => {
        const memory = parseMemInfo(readFileSync("/proc/meminfo", "utf8"));
        const line = execFileSync("free", ["-b", "-w"], { encoding: "utf8" }).split("\n")[1]!.trim().split(/\s+/).map(Number);
        const [, total, , free, , buffers, cache, available] = line;
        const tolerance = 16 * 1024 * kib;
        expect(memory.totalBytes).toBe(total);
        expect(Math.abs(memory.freeBytes - free!)).toBeLessThan(tolerance);
        expect(Math.abs(memory.cachedBytes - buffers! - cache!)).toBeLessThan(tolerance);
        expect(Math.abs(memory.availableBytes - available!)).toBeLessThan(tolerance);
      },
      { timeout: 10_000 },
    );
  });
});
