import { describe, expect, it } from "vitest";
import { SeededRandom } from "../../base/seeded-random.fixture.ts";
import type { FrameFunction, FrameRow } from "../../code/index.ts";
import { dwarfRegisters } from "../kernel/sample-record.ts";
import type { CodeFile } from "./code-file.ts";
import type { CodePlace } from "./process-code.ts";
import { type StackMemory, walkStack } from "./unwind.ts";

const stackAt = 0x7000_0000;

function row(pc: number, register: number, offset: number, rules: [number, number | "undefined"][] = [[16, -8]]): FrameRow {
  return { pc, register, offset, expression: null, rules: new Map(rules) };
}

const functions: FrameFunction[] = [
  // A leaf without a frame; a function with a 32-byte frame that saves rbp; one that keeps a frame pointer; the start of the program.
  { start: 0x100, end: 0x200, isSignal: false, rows: [row(0x100, 7, 8)] },
  {
    start: 0x200,
    end: 0x300,
    isSignal: false,
    rows: [
      row(0x200, 7, 32, [
        [16, -8],
        [6, -16],
      ]),
    ],
  },
  {
    start: 0x300,
    end: 0x400,
    isSignal: false,
    rows: [
      row(0x300, 6, 16, [
        [16, -8],
        [6, -16],
      ]),
    ],
  },
  { start: 0x400, end: 0x500, isSignal: false, rows: [row(0x400, 7, 8, [[16, "undefined"]])] },
];

/** Code from 0x100 to 0x1000; above 0x500 without tables, like the code of a JIT compiler. */
function find(address: number): CodePlace | null {
  if (address < 0x100 || address >= 0x1000) return null;
  const frameAt = (at: number): FrameFunction | null => functions.find(({ start, end }) => at >= start && at < end) ?? null;
  const file = { frameAt } as unknown as CodeFile;
  return { mapping: { start: 0x100, end: 0x1000, fileOffset: 0, file: null, name: "" }, file, address };
}

function memory(words: readonly number[]): StackMemory {
  const stack = new DataView(new ArrayBuffer(words.length * 8));
  for (const [index, value] of words.entries()) stack.setBigUint64(index * 8, BigInt(value), true);
  return { stack, stackAt };
}

function registers(values: Record<number, number>): Float64Array {
  const all = new Float64Array(dwarfRegisters).fill(Number.NaN);
  for (const [register, value] of Object.entries(values)) all[Number(register)] = value;
  return all;
}

const walk = (initial: Float64Array, words: readonly number[]): [number[], string] => {
  const { frames, end } = walkStack(initial, memory(words), find);
  return [frames.map(({ address }) => address), end];
};

describe("walkStack()", () => {
  it("unwinds by tables to the start of the program", () => {
    // leaf → 0x210 (32 bytes) → 0x310 (by rbp) → 0x410 (start)
    const words = [0x210, 0, 0, stackAt + 7 * 8, 0x310, 0, 0, 0, 0x410, 0];
    expect(walk(registers({ 16: 0x100, 7: stackAt, 6: 1 }), words)).toEqual([[0x100, 0x20f, 0x30f, 0x40f], "bottom"]);
  });

  it("unwinds by frame pointers where there are no tables", () => {
    const words = [stackAt + 2 * 8, 0x700, stackAt + 4 * 8, 0x410, 0];
    expect(walk(registers({ 16: 0x600, 7: stackAt, 6: stackAt }), words)).toEqual([[0x600, 0x6ff, 0x40f], "bottom"]);
  });

  it.for([
    ["the copy ends before the stack", registers({ 16: 0x210, 7: stackAt, 6: 1 }), [0, 0], "truncated", 1],
    ["a return address is outside of code", registers({ 16: 0x100, 7: stackAt, 6: 1 }), [0x9999], "no-code", 1],
    ["a frame pointer leads back", registers({ 16: 0x600, 7: stackAt + 64, 6: stackAt }), [0, 0x700], "no-rule", 1],
    ["a stack does not grow", registers({ 16: 0x310, 7: stackAt + 16, 6: stackAt }), [stackAt, 0x310, stackAt, 0x310], "loop", 1],
  ] as const)("stops when %s", ([, initial, words, end, frames]) => {
    const [addresses, actual] = walk(initial, words);
    expect([addresses.length, actual]).toEqual([frames, end]);
  });

  it("terminates on any stack", () => {
    const random = new SeededRandom(5);
    for (let round = 0; round < 2_000; round++) {
      const words = Array.from({ length: 64 }, () => (random.below(2) === 0 ? 0x100 + random.below(0xf00) : stackAt + random.below(512)));
      const [addresses] = walk(
        registers({ 16: 0x100 + random.below(0xf00), 7: stackAt + random.below(64), 6: stackAt + random.below(512) }),
        words,
      );
      expect(addresses.length).toBeLessThanOrEqual(256);
    }
  });
});
