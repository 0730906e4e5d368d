import { describe, expect, it } from "vitest";
import { cleanCodeRanges, cleanPartsOf, readOnlyMappings } from "./clean-code.ts";

const line = (range: string, access: string, inode = "77", path = "/usr/bin/x"): string =>
  `${range} ${access} 00001000 fe:00 ${inode}   ${path}\n`;

describe("readOnlyMappings()", () => {
  it("takes private mappings of files that may not be written", () => {
    const maps = [
      line("00400000-00500000", "r-xp"),
      line("00500000-00600000", "r--p", "77", "/usr/bin/with a space (deleted)"),
      line("00600000-00700000", "rw-p"),
      line("00700000-00800000", "rwxp"),
      line("00800000-00900000", "r--s"),
      line("00900000-00a00000", "---p"),
      line("00a00000-00b00000", "r-xp", "0", "[vdso]"),
      line("00b00000-00b01000", "r-xp"),
      line("7f0000000000-7f0000100000", "r-xp"),
      "00c00000-00d00000 r--p 00000000 00:00 0 \n",
    ];
    expect(readOnlyMappings(maps.join(""))).toEqual([
      { start: 0x400000, sizeBytes: 0x100000 },
      { start: 0x500000, sizeBytes: 0x100000 },
      { start: 0x7f0000000000, sizeBytes: 0x100000 },
    ]);
  });
});

describe("cleanPartsOf()", () => {
  const file = 0xa000_0000;
  const own = 0x8000_0000;
  const absent = 0;
  const swapped = 0x4000_0000;

  function partsOf(pages: readonly number[], readable = pages.length): [page: number, pages: number][] {
    const start = 0x400000;
    const parts = cleanPartsOf({ start, sizeBytes: pages.length * 4096 }, 4096, (into, offset) => {
      const first = offset / 8 - start / 4096;
      const count = Math.max(0, Math.min(into.length / 8, readable - first));
      for (let index = 0; index < count; index++) into.writeUInt32LE(pages[first + index] ?? 0, index * 8 + 4);
      return count * 8;
    });
    return parts.map((part) => [(part.start - start) / 4096, part.sizeBytes / 4096]);
  }

  it("skips pages that differ from the file, and ranges between them that are too small", () => {
    const pages = Array<number>(100).fill(file);
    pages[20] = own;
    pages[30] = own;
    pages[70] = swapped;
    pages[80] = absent;
    expect(partsOf(pages)).toEqual([
      [0, 20],
      [31, 39],
      [71, 29],
    ]);
  });

  it("reads large mappings in pieces, and skips what it cannot read", () => {
    const pages = Array<number>(10_000).fill(file);
    pages[4_096] = own;
    expect(partsOf(pages)).toEqual([
      [0, 4_096],
      [4_097, 5_903],
    ]);
    expect(partsOf(pages, 5_000)).toEqual([
      [0, 4_096],
      [4_097, 903],
    ]);
    expect(partsOf(pages, 0)).toEqual([]);
  });
});

it.runIf(process.platform === "linux")("cleanCodeRanges() finds the code of this process", () => {
  const bytes = cleanCodeRanges(4096).reduce((sum, { sizeBytes }) => sum + sizeBytes, 0);
  expect(bytes).toBeGreaterThan(10_000_000);
});
