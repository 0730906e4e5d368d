import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { createHostRoot } from "../files/host-root.ts";
import { parseCodeMapping } from "./code-mappings.ts";
import { readKernelFunctions } from "./kernel-functions.ts";

let directory: string;
beforeEach(() => {
  directory = mkdtempSync(join(tmpdir(), "coral-kallsyms-"));
  mkdirSync(join(directory, "proc"));
});
afterEach(() => rmSync(directory, { recursive: true }));

function read(text: string): ReturnType<typeof readKernelFunctions> {
  writeFileSync(join(directory, "proc/kallsyms"), text);
  return readKernelFunctions(createHostRoot(directory));
}

const text = `0000000000000000 A fixed_percpu_data
ffffffff81000000 T _text
ffffffff81000100 t do_work
ffffffff81000180 D some_data
ffffffff81000200 W weak_work
ffffffffc0001000 t module_work\t[module]
`;

describe("readKernelFunctions()", () => {
  it.for([
    [0xffff81000000, "_text"],
    [0xffff810000ff, "_text"],
    [0xffff810001f0, "do_work"],
    [0xffff81000200, "weak_work"],
    [0xffffc0001004, "module_work"],
    [0xffff80ffffff, null],
    [0xffffd0001004, null],
  ] as const)("names %i as %s", ([address, expected]) => {
    expect(read(text)?.nameOf(address)).toBe(expected);
  });

  it("sorts modules, truncates long names, and reads files of any length", () => {
    const lines = Array.from(
      { length: 140_000 },
      (_, index) => `ffffffff${(0x81000000 + index * 16).toString(16)} t function_number_${index}`,
    );
    const functions = read(
      `ffffffffc0002000 t later\t[b]\nffffffffc0001000 t earlier\t[a]\nffffffffb0000000 T ${"x".repeat(200)}\n${lines.join("\n")}\n`,
    );
    expect(functions?.count).toBe(140_003);
    expect(functions?.nameOf(0xffff81000000 + 139_999 * 16 + 3)).toBe("function_number_139999");
    expect([0xffffc0001fff, 0xffffc0002000, 0xffffb0000000].map((address) => functions?.nameOf(address))).toEqual([
      "earlier",
      "later",
      "x".repeat(128),
    ]);
  });

  it("is null when the kernel hides its addresses", () => {
    expect(read("0000000000000000 T _text\n0000000000000000 t do_work\n")).toBeNull();
  });
});

describe("parseCodeMapping()", () => {
  it.for([
    [
      "7f1c2b400000-7f1c2b622000 r-xp 00028000 fe:01 1234    /usr/lib/libc.so.6 (deleted)",
      {
        start: 0x7f1c2b400000,
        end: 0x7f1c2b622000,
        fileOffset: 0x28000,
        name: "",
        file: { key: "fe:01:1234", path: "/usr/lib/libc.so.6 (deleted)", range: "7f1c2b400000-7f1c2b622000" },
      },
    ],
    [
      "7fff5d1fe000-7fff5d200000 r-xp 00000000 00:00 0      [vdso]",
      { start: 0x7fff5d1fe000, end: 0x7fff5d200000, fileOffset: 0, name: "[vdso]", file: null },
    ],
    [
      "37a5c0600000-37a5c0640000 rwxp 00000000 00:00 0 ",
      { start: 0x37a5c0600000, end: 0x37a5c0640000, fileOffset: 0, name: "", file: null },
    ],
    ["7f1c2b400000-7f1c2b622000 r--p 00000000 fe:01 1234    /usr/lib/libc.so.6", null],
    ["nonsense", null],
  ] as const)("reads %s", ([line, expected]) => {
    expect(parseCodeMapping(line)).toEqual(expected);
  });
});
