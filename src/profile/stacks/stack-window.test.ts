import { closeSync, openSync, readSync } from "node:fs";
import { describe, expect, it } from "vitest";
import type { CodeReader } from "../../host/index.ts";
import type { CpuSample } from "../kernel/sample-record.ts";
import { FileCache, ProcessCodes } from "./process-code.ts";
import { StackWindow } from "./stack-window.ts";

/** Code of this program at made-up addresses: samples hit the start of the file's first function. */
function createWindow(): { window: StackWindow; reads: () => number; mapReads: () => number; [Symbol.dispose]: () => void } {
  const fd = openSync(process.execPath, "r");
  let [largeReads, mapReads] = [0, 0];
  const reader: CodeReader = {
    mappings: () => {
      mapReads++;
      const file = { key: "0:1", path: "/opt/program", range: "" };
      return [{ start: 0, end: 2 ** 40, fileOffset: 0, file, name: "" }];
    },
    open: () => ({
      fd,
      path: "",
      sizeBytes: 0,
      identity: "",
      readAt: (into, offset) => {
        if (into.length > 100_000) largeReads++;
        return readSync(fd, into, 0, into.length, offset);
      },
      [Symbol.dispose]: () => undefined,
    }),
    vdso: () => null,
  };
  const codes = new ProcessCodes(
    reader,
    new FileCache(reader),
    { read: () => Buffer.alloc(0) },
    { add: () => true, remove: () => undefined },
  );
  const window = new StackWindow({ codes, kernelFunctions: () => null, maxStacks: 100, nowMs: () => nowMs });
  return { window, reads: () => largeReads, mapReads: () => mapReads, [Symbol.dispose]: () => closeSync(fd) };
}

let nowMs = 0;

/** One frame: without registers only frame pointers are used. */
const sampleAt = (address: number): CpuSample => ({
  pid: 1,
  startedNs: 1,
  isKernelThread: false,
  threadName: "main",
  processName: "program",
  kernel: [],
  user: [address],
  runtime: [],
  registers: null,
  stack: new DataView(new ArrayBuffer(0)),
  stackAt: 0,
});

describe("StackWindow", () => {
  it("reads the symbols of a file at its third frame, and only once", () => {
    using test = createWindow();
    const names = (): string[] => test.window.take().frames.map(({ name }) => name);
    test.window.add(sampleAt(0x1000));
    test.window.add(sampleAt(0x1000));
    expect(names()).toEqual([expect.stringMatching(/^program\+0x[0-9a-f]+$/)]);
    const before = test.reads();
    test.window.add(sampleAt(0x1000));
    test.window.take();
    const after = test.reads();
    expect(after).toBeGreaterThan(before);
    test.window.add(sampleAt(0x2000));
    test.window.take();
    expect(test.reads()).toBe(after);
  });

  it("reads mappings again for unknown addresses, with growing intervals", () => {
    using test = createWindow();
    nowMs = 0;
    for (; nowMs < 60_000; nowMs += 100) test.window.add(sampleAt(2 ** 41));
    // At 0 s, then after 1, 2, 4, 8 and 16 s, and every 30 s after that.
    expect(test.mapReads()).toBe(6);
    const [stack] = test.window.take().stacks;
    expect(stack?.samples).toBe(600);
  });
});
