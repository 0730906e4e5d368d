import { readFileSync } from "node:fs";
import { expect, it } from "vitest";
import { readProcessName } from "./process-name.ts";

it("readProcessName() has the kernel's name of a process", () => {
  expect(readProcessName(process.pid)).toBe(readFileSync("/proc/self/comm", "utf8").trimEnd());
});

it("readProcessName() knows nothing of a process that does not run", () => {
  expect(readProcessName(4_194_305)).toBeNull();
});
