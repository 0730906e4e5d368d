import { execFileSync, spawnSync } from "node:child_process";
import { closeSync, mkdtempSync, openSync, readFileSync, readSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { seededRandom } from "../base/damaged-texts.fixture.ts";
import { readBuildId } from "./elf-build-id.ts";

const over = (bytes: Buffer) => (into: Buffer, offset: number) => bytes.copy(into, 0, Math.min(offset, bytes.length));

interface ElfOptions {
  is64?: boolean;
  isLittleEndian?: boolean;
  notes?: { name: string; type: number; value: Buffer }[];
}

/** An ELF file of a header, one note segment and its notes. */
function elf({ is64 = true, isLittleEndian = true, notes = [] }: ElfOptions): Buffer {
  const padded = (bytes: Buffer): Buffer => Buffer.concat([bytes, Buffer.alloc((4 - (bytes.length % 4)) % 4)]);
  const uint32 = (value: number): Buffer => {
    const bytes = Buffer.alloc(4);
    new DataView(bytes.buffer, bytes.byteOffset).setUint32(0, value, isLittleEndian);
    return bytes;
  };
  const body = Buffer.concat(
    notes.map(({ name, type, value }) => {
      const text = Buffer.from(`${name}\0`);
      return Buffer.concat([uint32(text.length), uint32(value.length), uint32(type), padded(text), padded(value)]);
    }),
  );
  const [headerBytes, segmentBytes] = is64 ? [64, 56] : [64, 32];
  const head = Buffer.alloc(headerBytes + segmentBytes);
  const view = new DataView(head.buffer, head.byteOffset);
  head.set([0x7f, 0x45, 0x4c, 0x46, is64 ? 2 : 1, isLittleEndian ? 1 : 2], 0);
  const start = head.length;
  if (is64) {
    view.setBigUint64(32, BigInt(headerBytes), isLittleEndian);
    view.setUint16(54, segmentBytes, isLittleEndian);
    view.setUint16(56, 1, isLittleEndian);
    view.setUint32(headerBytes, 4, isLittleEndian);
    view.setBigUint64(headerBytes + 8, BigInt(start), isLittleEndian);
    view.setBigUint64(headerBytes + 32, BigInt(body.length), isLittleEndian);
  } else {
    view.setUint32(28, headerBytes, isLittleEndian);
    view.setUint16(42, segmentBytes, isLittleEndian);
    view.setUint16(44, 1, isLittleEndian);
    view.setUint32(headerBytes, 4, isLittleEndian);
    view.setUint32(headerBytes + 4, start, isLittleEndian);
    view.setUint32(headerBytes + 16, body.length, isLittleEndian);
  }
  return Buffer.concat([head, body]);
}

const id = Buffer.from("00112233445566778899aabbccddeeff01234567", "hex");
const note = { name: "GNU", type: 3, value: id };
const other = { name: "GNU", type: 1, value: Buffer.alloc(16) };

describe("readBuildId()", () => {
  it.each([
    [true, true],
    [true, false],
    [false, true],
    [false, false],
  ])("reads it from 64-bit %s, little-endian %s", (is64, isLittleEndian) => {
    expect(readBuildId(over(elf({ is64, isLittleEndian, notes: [other, note] })))).toBe(id.toString("hex"));
  });

  it("has none without the note, and for other files", () => {
    expect(readBuildId(over(elf({ notes: [other, { ...note, name: "Go" }] })))).toBeNull();
    expect(readBuildId(over(elf({})))).toBeNull();
    expect(readBuildId(over(Buffer.from("#!/bin/sh\n")))).toBeNull();
    expect(readBuildId(over(Buffer.alloc(0)))).toBeNull();
  });

  it("reads it from a section that no note segment covers, as Go's linker writes it", () => {
    const file = elf({ notes: [note] });
    // The segment becomes PT_LOAD; a section header after the notes describes them instead.
    const [segmentStart, notesStart] = [64, 64 + 56];
    const section = Buffer.alloc(64);
    section.writeUInt32LE(7, 4);
    section.writeBigUInt64LE(BigInt(notesStart), 24);
    section.writeBigUInt64LE(BigInt(file.length - notesStart), 32);
    file.writeUInt32LE(1, segmentStart);
    file.writeBigUInt64LE(BigInt(file.length), 40);
    file.writeUInt16LE(64, 58);
    file.writeUInt16LE(1, 60);
    expect(readBuildId(over(Buffer.concat([file, section])))).toBe(id.toString("hex"));
    expect(readBuildId(over(file))).toBeNull();
  });

  it("survives damaged files", () => {
    const random = seededRandom(41);
    const good = elf({ notes: [other, note] });
    for (let round = 0; round < 3_000; round++) {
      const bytes = Buffer.from(good.subarray(0, Math.floor(random() * (good.length + 1))));
      for (let step = 0; step < 5 && bytes.length > 0; step++) bytes[Math.floor(random() * bytes.length)] = Math.floor(random() * 256);
      const found = readBuildId(over(bytes));
      expect(found === null || /^[0-9a-f]{8,128}$/.test(found)).toBe(true);
    }
  });

  it.runIf(spawnSync("readelf", ["--version"]).status === 0)("agrees with readelf(1) about the running program", () => {
    const theirs = /Build ID: ([0-9a-f]+)/.exec(execFileSync("readelf", ["-n", process.execPath], { encoding: "utf8" }))?.[1] ?? null;
    const descriptor = openSync(process.execPath, "r");
    try {
      expect(readBuildId((into, offset) => readSync(descriptor, into, 0, into.length, offset))).toBe(theirs);
    } finally {
      closeSync(descriptor);
    }
  });

  it.runIf(spawnSync("gcc", ["--version"]).status === 0)("reads what the linker wrote", () => {
    const directory = mkdtempSync(join(tmpdir(), "coral-elf-"));
    try {
      writeFileSync(join(directory, "a.c"), "int main(void) { return 0; }\n");
      execFileSync("gcc", ["-Wl,--build-id=0xdeadbeefcafe", "-o", join(directory, "a"), join(directory, "a.c")]);
      expect(readBuildId(over(readFileSync(join(directory, "a"))))).toBe("deadbeefcafe");
      execFileSync("gcc", ["-Wl,--build-id=none", "-o", join(directory, "b"), join(directory, "a.c")]);
      expect(readBuildId(over(readFileSync(join(directory, "b"))))).toBeNull();
    } finally {
      rmSync(directory, { recursive: true });
    }
  });
});
