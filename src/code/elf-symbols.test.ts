import { execFileSync, spawnSync } from "node:child_process";
import { closeSync, existsSync, mkdtempSync, openSync, readFileSync, readSync, realpathSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { SeededRandom } from "../base/seeded-random.fixture.ts";
import { type ElfImage, readElfImage } from "./elf-image.ts";
import { findElfFunctions, findExportedFunctions } from "./elf-symbols.ts";
import { isGoProgram, readGoProgram } from "./go-symbols.ts";

const sslNames = ["SSL_read", "SSL_read_ex", "SSL_write", "SSL_write_ex", "SSL_free"];
const goNames = ["crypto/tls.(*Conn).Read", "crypto/tls.(*Conn).Write", "runtime.memmove"];
const libssl = "/usr/lib/x86_64-linux-gnu/libssl.so.3";

interface OpenedFile {
  image: ElfImage;
  bytesRead: () => number;
}

function withFile<T>(path: string, use: (file: OpenedFile) => T): T {
  const fd = openSync(path, "r");
  let total = 0;
  try {
    const image = readElfImage((into, offset) => {
      const length = readSync(fd, into, 0, into.length, offset);
      total += length;
      return length;
    });
    if (image === null) throw new Error(`${path} is not an ELF file`);
    return use({ image, bytesRead: () => total });
  } finally {
    closeSync(fd);
  }
}

const has = (command: string): boolean => spawnSync("sh", ["-c", `command -v ${command}`]).status === 0;

describe("findElfFunctions()", () => {
  it.skipIf(!existsSync(libssl) || !has("nm"))("agrees with nm about libssl", () => {
    const lines = execFileSync("nm", ["-D", "-S", "--defined-only", libssl], { encoding: "utf8", maxBuffer: 1 << 26 }).split("\n");
    withFile(libssl, ({ image }) => {
      const found = findElfFunctions(image, sslNames);
      expect([...found.keys()].sort()).toEqual([...sslNames].sort());
      for (const { name, address, sizeBytes } of found.values()) {
        const line = lines.find((one) => new RegExp(` T ${name}@`).test(one));
        expect(line?.split(" ").slice(0, 2)).toEqual([address, sizeBytes].map((value) => value.toString(16).padStart(16, "0")));
      }
    });
  });

  it("finds OpenSSL in node's executable with a few kilobytes of reading", () => {
    withFile(realpathSync(process.execPath), ({ image, bytesRead }) => {
      const found = findExportedFunctions(image, sslNames);
      expect(found.size).toBe(sslNames.length);
      expect(bytesRead()).toBeLessThan(64 * 1024);
    });
  });

  it("does not find imported functions", () => {
    withFile("/bin/sh", ({ image }) => {
      expect(findElfFunctions(image, ["malloc", "SSL_read", "no such name"]).size).toBe(0);
    });
  });

  describe.skipIf(!has("cc"))("in files compiled here", () => {
    let directory = "";
    beforeAll(() => {
      directory = mkdtempSync(join(tmpdir(), "coral-elf-"));
      writeFileSync(
        join(directory, "a.c"),
        "static int __attribute__((noinline)) SSL_read(int x) { return x * 3; }\nint other(int x) { return SSL_read(x); }\nint main(int c, char **v) { (void)v; return other(c) == 4; }\n",
      );
      for (const [name, ...options] of [
        ["full", "-O0"],
        ["pie", "-O0", "-pie", "-fPIE"],
        ["stripped", "-O0", "-s"],
        ["shared", "-O0", "-shared", "-fPIC", "-Wl,--hash-style=gnu"],
        ["sysv", "-O0", "-shared", "-fPIC", "-Wl,--hash-style=sysv"],
      ]) {
        execFileSync("cc", [...options, "-o", join(directory, name as string), join(directory, "a.c")]);
      }
    });
    afterAll(() => rmSync(directory, { recursive: true, force: true }));

    it.each(["full", "pie", "shared", "sysv"])("finds a local function in the full table: %s", (name) => {
      withFile(join(directory, name), ({ image }) => {
        const found = findElfFunctions(image, ["SSL_read", "main"]);
        expect([...found.keys()].sort()).toEqual(["SSL_read", "main"]);
        const { fileOffset, sizeBytes } = found.get("SSL_read") as { fileOffset: number; sizeBytes: number };
        // push %rbp, or endbr64 before it; and the function ends with its return.
        const code = readFileSync(join(directory, name)).subarray(fileOffset, fileOffset + sizeBytes);
        expect(code[0] === 0x55 || code.readUInt32BE(0) === 0xf30f1efa).toBe(process.arch === "x64");
        expect(code.at(-1)).toBe(0xc3);
      });
    });

    it("finds only exported functions without the full table", () => {
      withFile(join(directory, "stripped"), ({ image }) => expect(findElfFunctions(image, ["SSL_read"]).size).toBe(0));
      withFile(join(directory, "shared"), ({ image }) => {
        expect([...findExportedFunctions(image, ["SSL_read", "other"]).keys()]).toEqual(["other"]);
      });
    });
  });
});

describe.skipIf(!has("go"))("readGoProgram()", () => {
  let directory = "";
  beforeAll(() => {
    directory = mkdtempSync(join(tmpdir(), "coral-go-"));
    const source =
      'package main\n\nimport (\n\t"crypto/tls"\n\t"os"\n)\n\nfunc main() {\n\tc, err := tls.Dial("tcp", os.Args[1], nil)\n\tif err != nil {\n\t\tos.Exit(1)\n\t}\n\tb := make([]byte, 9)\n\tc.Read(b)\n\tc.Write(b)\n}\n';
    writeFileSync(join(directory, "main.go"), source);
    const environment = { ...process.env, GO111MODULE: "off", GOCACHE: process.env["GOCACHE"] ?? join(tmpdir(), "coral-go-cache") };
    for (const [name, ...options] of [["full"], ["stripped", "-ldflags", "-s -w"], ["pie", "-buildmode=pie"]]) {
      execFileSync("go", ["build", "-o", name as string, ...options, "main.go"], { cwd: directory, env: environment });
    }
  }, 120_000);
  afterAll(() => rmSync(directory, { recursive: true, force: true }));

  it.each(["full", "stripped", "pie"])("finds functions if the full table has them: %s", (name) => {
    withFile(join(directory, name), ({ image }) => {
      expect(isGoProgram(image)).toBe(true);
      const program = readGoProgram(image, [...goNames, "no.such"]);
      expect(program?.version).toMatch(/^go1\.\d+/);
      expect([...(program?.functions.keys() ?? [])].sort()).toEqual([...goNames].sort());
      if (name === "stripped") return;
      const expected = findElfFunctions(image, ["crypto/tls.(*Conn).Read"]).get("crypto/tls.(*Conn).Read");
      const found = program?.functions.get("crypto/tls.(*Conn).Read");
      expect(found?.address).toBe(expected?.address);
      // The linker's size excludes the padding between two functions.
      expect((found?.sizeBytes ?? 0) - (expected?.sizeBytes ?? 0)).toBeLessThan(64);
    });
  });

  it("gives up on hostile tables with bounded reads and memory", () => {
    const bytes = readFileSync(join(directory, "stripped"));
    const random = new SeededRandom(11);
    const table = withFile(join(directory, "stripped"), ({ image }) => image.section(".gopclntab"));
    for (let round = 0; round < 60; round++) {
      const copy = Buffer.from(bytes.subarray(0, (table?.fileOffset ?? 0) + 4096 + random.below(65536)));
      for (let hit = 0; hit < 6; hit++) copy[(table?.fileOffset ?? 0) + random.below(72)] = random.below(256);
      const image = readElfImage((into, offset) => copy.copy(into, 0, Math.min(offset, copy.length)));
      if (image !== null) readGoProgram(image, goNames);
    }
  });
});

describe("readElfImage() on hostile files", () => {
  it("reads a bounded amount and never throws", () => {
    const source = existsSync(libssl) ? libssl : "/bin/sh";
    const bytes = readFileSync(source);
    const random = new SeededRandom(7);
    // The header, the segment table and the section table, which all else depends on.
    const sectionsAt = bytes.readUInt32LE(40);
    const places = [...Array(1024).keys(), ...Array.from({ length: 1800 }, (_, index) => sectionsAt + index)];
    for (let round = 0; round < 400; round++) {
      const copy = Buffer.from(bytes);
      for (let hit = 0; hit < 1 + random.below(8); hit++) copy[random.pick(places) % copy.length] = random.below(256);
      const cut = random.below(4) === 0 ? copy.subarray(0, random.below(copy.length)) : copy;
      let total = 0;
      const image = readElfImage((into, offset) => {
        const length = cut.copy(into, 0, Math.min(offset, cut.length));
        total += length;
        return length;
      });
      if (image !== null) {
        findElfFunctions(image, sslNames);
        readGoProgram(image, goNames);
      }
      expect(total).toBeLessThan(20 * bytes.length);
    }
  });

  it.each([
    ["nothing", Buffer.alloc(0)],
    ["text", Buffer.from("#!/bin/sh\n".repeat(20))],
    ["a header alone", Buffer.concat([Buffer.from([0x7f, 0x45, 0x4c, 0x46, 2, 1]), Buffer.alloc(58)])],
    ["32 bits", Buffer.concat([Buffer.from([0x7f, 0x45, 0x4c, 0x46, 1, 1]), Buffer.alloc(80)])],
  ])("finds nothing in %s", (_, bytes) => {
    const image = readElfImage((into, offset) => bytes.copy(into, 0, Math.min(offset, bytes.length)));
    expect(image === null || findElfFunctions(image, sslNames).size === 0).toBe(true);
  });
});
