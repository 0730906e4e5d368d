import { describe, expect, it } from "vitest";
import { damagedTexts } from "../../base/damaged-texts.fixture.ts";
import { createHostRoot } from "../files/host-root.ts";
import { createHostTree, hasSaneNumbers } from "../host-tree.fixture.ts";
import { parseDiskStats, readDisks } from "./diskstats.ts";

/** Linux 6: 20 fields with discards and flushes. */
const linux6 = `   7       0 loop0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0
   7       1 loop1 12 0 96 3 0 0 0 0 0 4 3 0 0 0 0 0 0
 254       0 vda 8457 4455 1090714 3747 2149 15144 1908984 10025 1 1628 14021 3248 38 175688 248 14 0
 254       1 vda1 8000 4455 1090000 3700 2149 15144 1908984 10025 0 1600 14000 3248 38 175688 248 14 0
 259       0 nvme0n1 10 0 80 1 20 0 160 2 0 3 3
 259       1 nvme0n1p1 10 0 80 1 20 0 160 2 0 3 3
 253       0 dm-0 5 0 40 1 6 0 48 2 0 3 3 0 0 0 0 0 0
 253       0 zram0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0
   1       0 ram0 0 0 0 0 0 0 0 0 0 0 0
 104       0 cciss/c0d0 1 0 8 1 1 0 8 1 0 2 2
`;
const whole = new Set(["loop0", "loop1", "vda", "nvme0n1", "dm-0", "zram0", "ram0", "cciss!c0d0"]);

describe("parseDiskStats()", () => {
  it("keeps whole devices that were ever used", () => {
    expect(parseDiskStats(linux6, whole).disks.map((disk) => disk.device)).toEqual(["loop1", "vda", "nvme0n1", "dm-0", "cciss/c0d0"]);
  });

  it("recognises partitions by name without /sys", () => {
    expect(parseDiskStats(linux6, null).disks.map((disk) => disk.device)).toEqual(["loop1", "vda", "nvme0n1", "dm-0", "cciss/c0d0"]);
  });

  it("converts sectors to bytes", () => {
    expect(parseDiskStats(linux6, whole).disks[1]).toEqual({
      device: "vda",
      reads: 8457,
      readBytes: 1090714 * 512,
      readMs: 3747,
      writes: 2149,
      writtenBytes: 1908984 * 512,
      writeMs: 10025,
      busyMs: 1628,
      weightedMs: 14021,
    });
  });

  it("counts devices above the limit", () => {
    const many = Array.from({ length: 300 }, (_, index) => ` 253 ${index} dm-${index} 5 0 40 1 6 0 48 2 0 3 3`).join("\n");
    const scan = parseDiskStats(many, null);
    expect([scan.disks.length, scan.cut]).toEqual([256, 44]);
  });

  it("tolerates malformed input", () => {
    for (const text of damagedTexts([linux6], 6)) expect(hasSaneNumbers(parseDiskStats(text, null)), JSON.stringify(text)).toBe(true);
  });
});

describe("readDisks()", () => {
  it("uses /sys/block to find whole devices", () => {
    using tree = createHostTree({ "proc/diskstats": linux6, "sys/block/vda1/size": "1" });
    expect(readDisks(createHostRoot(tree.root)).disks.map((disk) => disk.device)).toEqual(["vda1"]);
  });

  it("is empty without the files", () => {
    using tree = createHostTree();
    expect(readDisks(createHostRoot(tree.root))).toEqual({ disks: [], cut: 0 });
  });
});
