import { describe, expect, it } from "vitest";
import { SeededRandom } from "../base/seeded-random.fixture.ts";
import { readCallFrames } from "./call-frames.ts";
import { type ElfImage, readElfImage } from "./elf-image.ts";

const textAt = 0x1000;
const tableAt = 0x2000;
const framesAt = 0x2100;

/** An image with only a frame table: header at 0x2000, entries from 0x2100, in the layout of linkers. */
function imageOf(entries: Buffer, functions: readonly { start: number; entry: number }[]): ElfImage {
  const bytes = Buffer.alloc(0x2100 - tableAt + entries.length);
  bytes.set([1, 0x1b, 0x03, 0x3b]);
  bytes.writeUInt32LE(functions.length, 8);
  for (const [index, { start, entry }] of functions.entries()) {
    bytes.writeInt32LE(start - tableAt, 12 + index * 8);
    bytes.writeInt32LE(entry - tableAt, 16 + index * 8);
  }
  entries.copy(bytes, framesAt - tableAt);
  const readAt = (into: Buffer, offset: number): number => (offset < bytes.length ? bytes.copy(into, 0, offset) : 0);
  return {
    machine: "x64",
    segments: [{ type: 0x6474e550, isExecutable: false, fileOffset: 0, address: tableAt, fileBytes: bytes.length }],
    sections: [],
    readAt,
    section: () => undefined,
    offsetOf: (address) => address - tableAt,
    isCode: (address) => address >= textAt && address < tableAt,
    readAddress: (address, sizeBytes) => bytes.subarray(Math.max(0, address - tableAt), Math.max(0, address - tableAt + sizeBytes)),
  };
}

function entry(...content: (number | Buffer)[]): Buffer {
  const body = Buffer.concat(content.map((one) => (typeof one === "number" ? Buffer.from([one]) : one)));
  const padded = Buffer.concat([body, Buffer.alloc((4 - (body.length % 4)) % 4)]);
  const length = Buffer.alloc(4);
  length.writeUInt32LE(padded.length);
  return Buffer.concat([length, padded]);
}

function word(value: number): Buffer {
  const bytes = Buffer.alloc(4);
  bytes.writeInt32LE(value);
  return bytes;
}

/** "zR", code unit 1, data unit -8, return address in register 16, pointers relative to themselves; CFA = rsp + 8, return address at -8. */
const common = entry(word(0), 1, Buffer.from("zR\0"), 1, 0x78, 16, 1, 0x1b, 0x0c, 7, 8, 0x90, 1);

function functionEntry(at: number, start: number, size: number, ...instructions: number[]): Buffer {
  return entry(word(at + 4 - framesAt), word(start - (at + 8)), word(size), 0, ...instructions);
}

const pushAt = framesAt + common.length;
// push %rbp (offset 16, rbp at -16); then mov %rsp,%rbp (CFA by rbp); before ret: CFA = rsp + 8.
const push = functionEntry(pushAt, textAt, 0x40, 0x41, 0x0e, 16, 0x86, 2, 0x43, 0x0d, 6, 0x78, 0x78).subarray(0);
const frames = [{ start: textAt, entry: pushAt }];

describe("readCallFrames()", () => {
  it("decodes the rows of a function", () => {
    const body = functionEntry(pushAt, textAt, 0x40, 0x41, 0x0e, 16, 0x86, 2, 0x43, 0x0d, 6, 0x5c, 0x0c, 7, 8);
    const found = readCallFrames(imageOf(Buffer.concat([common, body]), frames))?.find(textAt + 2);
    expect(found).toMatchObject({ start: textAt, end: textAt + 0x40, isSignal: false });
    const rows = found?.rows.map(({ pc, register, offset, rules }) => ({
      pc: pc - textAt,
      register,
      offset,
      rbp: rules.get(6),
      ra: rules.get(16),
    }));
    expect(rows).toEqual([
      { pc: 0, register: 7, offset: 8, rbp: undefined, ra: -8 },
      { pc: 1, register: 7, offset: 16, rbp: -16, ra: -8 },
      { pc: 4, register: 6, offset: 16, rbp: -16, ra: -8 },
      { pc: 0x20, register: 7, offset: 8, rbp: -16, ra: -8 },
    ]);
  });

  it("restores a remembered state with its frame", () => {
    const body = functionEntry(pushAt, textAt, 0x40, 0x0a, 0x0e, 32, 0x86, 4, 0x44, 0x0b, 0x44, 0x0e, 24);
    const rows = readCallFrames(imageOf(Buffer.concat([common, body]), frames))?.find(textAt)?.rows ?? [];
    expect(rows.map(({ offset, rules }) => [offset, rules.get(6)])).toEqual([
      [32, -32],
      [8, undefined],
      [24, undefined],
    ]);
  });

  it.for([
    ["an address before every function", textAt - 1, push],
    ["an address after its function", textAt + 0x40, push],
    ["an unknown instruction", textAt, functionEntry(pushAt, textAt, 0x40, 0x3f)],
    ["an instruction without its operand", textAt, functionEntry(pushAt, textAt, 0x40, 0x0c, 7, 0x80)],
    ["a block longer than its entry", textAt, functionEntry(pushAt, textAt, 0x40, 0x0f, 0x7f)],
    ["a state that was never remembered", textAt, functionEntry(pushAt, textAt, 0x40, 0x0b)],
  ] as const)("finds nothing for %s", ([, address, body]) => {
    expect(readCallFrames(imageOf(Buffer.concat([common, body]), frames))?.find(address)).toBeNull();
  });

  it("survives damaged tables", () => {
    const random = new SeededRandom(19);
    const healthy = Buffer.concat([common, functionEntry(pushAt, textAt, 0x40, 0x41, 0x0e, 16, 0x86, 2, 0x43, 0x0d, 6)]);
    let found = 0;
    for (let round = 0; round < 3_000; round++) {
      const damaged = Buffer.from(healthy);
      for (let count = 1 + random.below(4); count > 0; count--) damaged[random.below(damaged.length)] = random.below(256);
      const result = readCallFrames(imageOf(damaged, frames))?.find(textAt + 2);
      if (result) found++;
      expect(result?.rows.length ?? 0).toBeLessThan(5_000);
    }
    expect(found).toBeGreaterThan(100);
  });

  it.runIf(process.arch === "x64")("reads every requested function of a real executable", async () => {
    const { openSync, readSync, closeSync } = await import("node:fs");
    const fd = openSync(process.execPath, "r");
    try {
      const image = readElfImage((into, offset) => readSync(fd, into, 0, into.length, offset));
      if (image === null) throw new Error("this executable is not ELF");
      const table = readCallFrames(image);
      const text = image.segments.find(({ isExecutable, type }) => isExecutable && type === 1);
      if (table === null || text === undefined) throw new Error("this executable has no frame table");
      const random = new SeededRandom(7);
      let [inside, withReturn] = [0, 0];
      for (let round = 0; round < 500; round++) {
        const found = table.find(text.address + random.below(text.fileBytes));
        if (found === null) continue;
        inside++;
        if (found.rows.every(({ rules }) => rules.get(16) !== undefined)) withReturn++;
      }
      expect(inside).toBeGreaterThan(100);
      expect(withReturn).toBe(inside);
    } finally {
      closeSync(fd);
    }
  });
});
