import { readFileSync } from "node:fs";
import { expect, it } from "vitest";
import { decodeProcessName, readProcessName } from "./process-name.ts";

it("readProcessName() returns the kernel's name of a process", () => {
  expect(readProcessName(process.pid)).toBe(readFileSync("/proc/self/comm", "utf8").trimEnd());
});

it("readProcessName() returns nothing for a process that does not exist", () => {
  expect(readProcessName(4_194_305)).toBeNull();
});

it.each([
  ["curl\0\0\0\0\0\0\0\0\0\0\0\0rest", "curl"],
  ["fifteen-letters\0rest", "fifteen-letters"],
  ["sixteen-letters!rest", "sixteen-letters!"],
  ["a\u0007b\0", "ab"],
  ["\0\0\0\0", null],
  ["", null],
  ["cut", "cut"],
])("decodeProcessName() of %j is %j", (text, name) => {
  expect(decodeProcessName(Buffer.from(`..${text}`), 2)).toBe(name);
});
