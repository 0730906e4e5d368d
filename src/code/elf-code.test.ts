import { execFileSync, spawnSync } from "node:child_process";
import { existsSync, readFileSync, realpathSync } from "node:fs";
import { describe, expect, it } from "vitest";
import { SeededRandom } from "../base/seeded-random.fixture.ts";
import { findCodeRange, readPointers } from "./elf-code.ts";
import { type ElfImage, readElfImage } from "./elf-image.ts";
import { findExportedFunctions } from "./elf-symbols.ts";

const libssl = "/usr/lib/x86_64-linux-gnu/libssl.so.3";

function imageOf(bytes: Buffer): ElfImage | null {
  return readElfImage((into, offset) => bytes.copy(into, 0, offset));
}

describe("findCodeRange()", () => {
  it.each([libssl, realpathSync(process.execPath)].filter((path) => existsSync(path)))("agrees with the symbols of %s", (path) => {
    const image = imageOf(readFileSync(path)) as ElfImage;
    const functions = [...findExportedFunctions(image, ["SSL_read", "SSL_write", "SSL_free", "SSL_peek"]).values()];
    expect(functions).toHaveLength(4);
    for (const { address, sizeBytes } of functions) {
      expect(findCodeRange(image, address)).toEqual({ address, sizeBytes });
      expect(findCodeRange(image, address + sizeBytes - 1)).toEqual({ address, sizeBytes });
      expect(findCodeRange(image, address + sizeBytes)?.address).not.toBe(address);
    }
    expect(findCodeRange(image, 0)).toBeNull();
    expect(findCodeRange(image, 2 ** 40)).toBeNull();
  });
});

describe("readPointers()", () => {
  it.skipIf(!existsSync(libssl) || spawnSync("readelf", ["--version"]).status !== 0)("agrees with readelf(1)", () => {
    const image = imageOf(readFileSync(libssl)) as ElfImage;
    const lines = execFileSync("readelf", ["-rW", libssl], { encoding: "utf8", maxBuffer: 1 << 26 }).split("\n");
    const relative = lines.flatMap((line) => {
      const [, at, to] = /^([0-9a-f]+) +[0-9a-f]+ R_X86_64_RELATIVE +([0-9a-f]+)$/.exec(line.trimEnd()) ?? [];
      return at === undefined || to === undefined ? [] : [{ at: Number.parseInt(at, 16), to: Number.parseInt(to, 16) }];
    });
    expect(relative.length).toBeGreaterThan(100);
    for (const { at, to } of relative.filter((_, index) => index % 97 === 0)) expect(readPointers(image, at, 1)).toEqual([to]);
  });
});

describe.skipIf(!existsSync(libssl))("for damaged files", () => {
  it("do not run without end", () => {
    const random = new SeededRandom(7);
    const good = readFileSync(libssl);
    const whole = imageOf(good) as ElfImage;
    const { address } = findExportedFunctions(whole, ["SSL_read"]).get("SSL_read") as { address: number };
    const places = whole.segments.filter(({ type }) => type === 0x6474e550 || type === 2);
    for (let round = 0; round < 200; round++) {
      const bytes = Buffer.from(good);
      for (const { fileOffset, fileBytes } of places) {
        for (let step = 0; step < 40; step++) bytes[fileOffset + random.below(Math.min(fileBytes, 256))] = random.below(256);
      }
      const image = imageOf(bytes) as ElfImage;
      const range = findCodeRange(image, address);
      expect(range === null || range.sizeBytes > 0).toBe(true);
      expect(readPointers(image, whole.section(".data.rel.ro")?.address ?? 0, 4).length).toBeLessThanOrEqual(4);
    }
  });
});
