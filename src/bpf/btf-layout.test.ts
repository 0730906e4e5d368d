import { execFileSync, spawnSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, describe, expect, it } from "vitest";
import { SeededRandom } from "../base/seeded-random.fixture.ts";
import { parseBtf, readBtfLayout } from "./btf-layout.ts";

const directory = mkdtempSync(join(tmpdir(), "coral-btf-"));
afterAll(() => rmSync(directory, { recursive: true }));

const source = `
typedef unsigned int number;
enum colour { RED = 1, GREEN = 7, NONE = -1 };
struct inner { unsigned short a; const volatile number b; };
struct outer {
  void *pointer;
  struct inner list[3];
  union { unsigned long long whole; unsigned char parts[2][4]; };
  struct { number deep; } named;
  unsigned flag : 1, rest : 31;
  enum colour colour;
};
struct outer variable; enum colour shade;
`;
const hasClang = spawnSync("clang", ["--version"]).status === 0;

function compile(): string {
  const path = join(directory, "a.o");
  writeFileSync(join(directory, "a.c"), source);
  execFileSync("clang", ["-O2", "-g", "-target", "bpf", "-c", join(directory, "a.c"), "-o", path]);
  return path;
}

describe("readBtfLayout()", () => {
  it.runIf(hasClang)("finds fields, including nested, unnamed and in arrays, and values of enumerations", () => {
    const layout = readBtfLayout(compile());
    const { sizeBytes, fields } = layout.struct("outer");
    expect(sizeBytes).toBe(56);
    expect(Object.fromEntries([...fields].map(([name, { offsetBytes, sizeBytes: size }]) => [name, [offsetBytes, size]]))).toEqual({
      pointer: [0, 8],
      list: [8, 24],
      whole: [32, 8],
      parts: [32, 8],
      named: [40, 4],
      "named.deep": [40, 4],
      colour: [48, 4],
    });
    expect(layout.struct("inner").fields.get("b")).toEqual({ offsetBytes: 4, sizeBytes: 4 });
    expect(Object.fromEntries(layout.enumeration("colour"))).toEqual({ RED: 1, GREEN: 7, NONE: -1 });
    expect(layout.enumeration("nothing").size).toBe(0);
  });

  it("rejects a file that is not an object", () => {
    const path = join(directory, "text");
    writeFileSync(path, "not an object".repeat(20));
    expect(() => readBtfLayout(path)).toThrow(`Cannot read the type information of "${path}": it is not a 64-bit ELF file`);
    expect(() => parseBtf(Buffer.alloc(30))).toThrow("does not start with the magic number");
  });

  it.runIf(hasClang)("terminates with a result or an error on damaged bytes", () => {
    const bytes = readFileSync(compile());
    const random = new SeededRandom(5);
    const damaged = join(directory, "damaged.o");
    for (let round = 0; round < 200; round++) {
      const copy = Buffer.from(bytes);
      for (let count = 0; count < 4; count++) copy[random.below(copy.length)] = random.below(256);
      writeFileSync(damaged, copy);
      try {
        readBtfLayout(damaged).struct("outer");
      } catch (error) {
        expect(error).toBeInstanceOf(Error);
      }
    }
  });
});
