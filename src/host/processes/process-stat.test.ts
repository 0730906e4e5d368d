import { readFileSync } from "node:fs";
import { describe, expect, it } from "vitest";
import { damagedTexts } from "../../base/damaged-texts.fixture.ts";
import { hasSaneNumbers } from "../host-tree.fixture.ts";
import { parseProcessStat, processStateOf } from "./process-stat.ts";

const tail =
  "S 1 42 42 0 -1 4194560 120 0 7 0 250 50 0 0 20 0 12 0 8500 104857600 5059 18446744073709551615 1 1 0 0 0 0 0 4096 0 0 0 0 17 1 0 0 0 0 0\n";
const plain = `42 (nginx) ${tail}`;

describe("parseProcessStat()", () => {
  it("reads what a row needs", () => {
    expect(parseProcessStat(plain)).toEqual({
      pid: 42,
      startTicks: 8500,
      name: "nginx",
      state: "S",
      cpuTicks: 300,
      majorFaults: 7,
      threads: 12,
      rssPages: 5059,
      isKernelThread: false,
    });
  });

  it.each(["a b", "tmux: server", "evil) R 1 (2", "((sd-pam))", ") ) )", "", "kworker/0:1-events"])("reads the name %j", (name) => {
    expect(parseProcessStat(`42 (${name}) ${tail}`)).toMatchObject({ name, state: "S", startTicks: 8500 });
  });

  it("strips control characters from names", () => {
    expect(parseProcessStat(`42 (a\u001b[2Jb\nc) ${tail}`)?.name).toBe("a[2Jbc");
  });

  it("recognises kernel threads by their flag", () => {
    expect(parseProcessStat(`2 (kthreadd) ${tail.replace("4194560", "2129984")}`)?.isKernelThread).toBe(true);
  });

  it.each(["", "42", "42 (nginx", "42 (nginx) S 1 2 3\n", "x (nginx) S 1", plain.replace(" 8500 ", " x ")])("refuses %j", (text) => {
    expect(parseProcessStat(text)).toBeNull();
  });

  it("tolerates malformed input", () => {
    for (const text of damagedTexts([plain], 13, 1000)) {
      const stat = parseProcessStat(text);
      expect(hasSaneNumbers(stat), JSON.stringify(text)).toBe(true);
      expect(stat?.name.length ?? 0).toBeLessThanOrEqual(64);
    }
  });

  it("reads this process", () => {
    expect(parseProcessStat(readFileSync("/proc/self/stat", "utf8"))).toMatchObject({ pid: process.pid, isKernelThread: false });
  });
});

it("processStateOf() returns the state of this process, and nothing for one that does not exist", () => {
  expect(processStateOf(process.pid)).toMatch(/^[RSD]$/);
  expect(processStateOf(2 ** 30)).toBeUndefined();
});
