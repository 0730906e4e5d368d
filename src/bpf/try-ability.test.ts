import { closeSync, mkdtempSync, openSync, readSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, describe, expect, it } from "vitest";
import { entryOffset } from "./try-ability.ts";

const directory = mkdtempSync(join(tmpdir(), "coral-elf-"));
afterAll(() => rmSync(directory, { recursive: true }));

function write(name: string, bytes: Buffer): string {
  const path = join(directory, name);
  writeFileSync(path, bytes);
  return path;
}

/** An ELF64 header with one loadable segment: file offset 0x1000 at address 0x401000. */
function tinyElf(entry: bigint): Buffer {
  const bytes = Buffer.alloc(64 + 56);
  bytes.writeUInt32BE(0x7f454c46, 0);
  bytes[4] = 2;
  bytes.writeBigUInt64LE(entry, 24);
  bytes.writeBigUInt64LE(64n, 32);
  bytes.writeUInt16LE(56, 54);
  bytes.writeUInt16LE(1, 56);
  bytes.writeUInt32LE(1, 64);
  bytes.writeBigUInt64LE(0x1000n, 64 + 8);
  bytes.writeBigUInt64LE(0x401000n, 64 + 16);
  bytes.writeBigUInt64LE(0x500n, 64 + 32);
  return bytes;
}

describe("entryOffset()", () => {
  it("converts the entry address to a file offset", () => {
    expect(entryOffset(write("ok", tinyElf(0x401234n)))).toBe(0x1234n);
  });

  it("finds the first instruction of this executable", () => {
    const bytes = Buffer.alloc(4);
    const fd = openSync(process.execPath, "r");
    readSync(fd, bytes, 0, 4, entryOffset(process.execPath));
    closeSync(fd);
    // x86-64 start code opens with endbr64 or clears ebp; arm64 with a hint or a move. Zeros would mean a wrong offset.
    const known = ["f30f1efa", "31ed4989", "f1031faa", "1f2003d5", "5f2403d5", "1d0080d2"];
    expect(known).toContain(bytes.toString("hex"));
  });

  it("rejects a file that is not ELF, and an entry outside every segment", () => {
    expect(() => entryOffset(write("text", Buffer.from("#!/bin/sh\n".repeat(10))))).toThrow("not a 64-bit ELF file");
    expect(() => entryOffset(write("outside", tinyElf(0x900000n)))).toThrow("no segment holds its entry point");
    expect(() => entryOffset(write("empty", Buffer.alloc(0)))).toThrow("not a 64-bit ELF file");
  });
});
