import { closeSync, openSync, readSync } from "node:fs";
import { describe, expect, it } from "vitest";
import { type ElfImage, readElfImage } from "./elf-image.ts";
import { findExportedFunctions } from "./elf-symbols.ts";
import { createFunctionNames } from "./symbol-names.ts";

describe("createFunctionNames()", () => {
  it("names functions of a real executable, at their start and inside, and reads its symbols once", () => {
    const fd = openSync(process.execPath, "r");
    try {
      let reads = 0;
      const image = readElfImage((into, offset) => {
        reads++;
        return readSync(fd, into, 0, into.length, offset);
      });
      if (image === null) throw new Error("this executable is not ELF");
      const functions = [...findExportedFunctions(image, ["napi_create_function", "uv_run", "napi_throw"]).values()];
      const addresses = functions.flatMap(({ address, sizeBytes }) => [address, address + sizeBytes - 1]);
      const names = createFunctionNames(image);
      expect(names.unreadBytes).toBeGreaterThan(0);
      const named = names.find([...addresses, 8]);
      expect(functions).toHaveLength(3);
      for (const { name, address, sizeBytes } of functions) {
        expect(named.get(address)).toEqual({ name, start: address });
        expect(named.get(address + sizeBytes - 1)?.name).toBe(name);
      }
      expect(named.has(8)).toBe(false);
      expect(names.unreadBytes).toBe(0);
      reads = 0;
      expect(names.find([addresses[0] ?? 0]).size).toBe(1);
      expect(reads).toBe(1);
      names.release();
      expect(names.sizeBytes).toBe(0);
      expect(names.find(addresses).size).toBe(6);
    } finally {
      closeSync(fd);
    }
  });

  it("prefers symbols with a size, the innermost, and the first of equal ones", () => {
    const names = createFunctionNames(
      imageOf([
        ["late", 0x5000, 0x100],
        ["outer", 0x1000, 0x1000],
        ["label", 0x1100, 0],
        ["inner", 0x1200, 0x10],
        ["alias_label", 0x3000, 0],
        ["sized", 0x3000, 0x20],
        ["other_alias", 0x3000, 0x20],
        ["assembly", 0x4000, 0],
      ]),
    );
    const wanted = [0x1000, 0x1150, 0x1205, 0x1210, 0x1fff, 0x2000, 0x301f, 0x4abc, 0x5000, 0x50ff];
    const found = names.find(wanted);
    expect(wanted.map((address) => found.get(address)?.name)).toEqual([
      "outer",
      "outer",
      "inner",
      "outer",
      "outer",
      "label",
      "sized",
      "assembly",
      "late",
      "late",
    ]);
  });

  it("survives a truncated table", () => {
    const image = imageOf([["one", 0x1000, 8]]);
    const section = { ...image.sections[0], sizeBytes: 24 * 100_000 } as ElfImage["sections"][number];
    const cut: ElfImage = { ...image, sections: [section, ...image.sections.slice(1)] };
    expect(createFunctionNames(cut).find([0x1000, 0x900000]).get(0x1000)?.name).toBe("one");
  });
});

/** An image with a symbol table and its strings. */
function imageOf(symbols: readonly [name: string, address: number, sizeBytes: number][]): ElfImage {
  const table = Buffer.alloc(24 * symbols.length);
  const strings = Buffer.from(`\0${symbols.map(([name]) => name).join("\0")}\0`, "latin1");
  for (const [index, [name, address, sizeBytes]] of symbols.entries()) {
    const at = index * 24;
    table.writeUInt32LE(strings.indexOf(`\0${name}\0`) + 1, at);
    table.writeUInt8(2, at + 4);
    table.writeUInt16LE(1, at + 6);
    table.writeUInt32LE(address, at + 8);
    table.writeUInt32LE(sizeBytes, at + 16);
  }
  const stringsAt = 1 << 24;
  const readAt = (into: Buffer, offset: number): number =>
    offset >= stringsAt ? strings.copy(into, 0, offset - stringsAt) : table.copy(into, 0, Math.min(offset, table.length));
  const section = { name: "", address: 0, link: 1 };
  return {
    machine: "x64",
    segments: [{ type: 1, isExecutable: true, fileOffset: 0, address: 0x1000, fileBytes: 0x10000 }],
    sections: [
      { ...section, type: 2, fileOffset: 0, sizeBytes: table.length },
      { ...section, type: 3, fileOffset: stringsAt, sizeBytes: strings.length },
    ],
    readAt,
    section: () => undefined,
    offsetOf: () => null,
    isCode: () => true,
    readAddress: () => Buffer.alloc(0),
  };
}
