import { closeSync, openSync, readSync } from "node:fs";
import { describe, expect, it } from "vitest";
import { SeededRandom } from "../base/seeded-random.fixture.ts";
import { readElfImage } from "./elf-image.ts";
import { V8Functions } from "./v8-functions.ts";
import { readV8Layout, type V8Layout } from "./v8-layout.ts";

const layout: V8Layout = {
  function: { shared: 24 },
  shared: { name: 16, script: 32 },
  script: { name: 16, source: 8, lineEnds: 56 },
  scope: { localCount: 2, firstLocal: 3 },
  types: { shared: 250, script: 251, scope: 252 },
};
const types = { oneByteString: 8, twoByteString: 0, consString: 9, fixedArray: 253 };
const start = 0x100000;

/** A V8 heap as bytes: objects are words, the first of which points to a map with their type. */
class Heap {
  readonly #bytes = Buffer.alloc(65_536);
  #end = 8;

  readonly read = (address: number, sizeBytes: number): Buffer => {
    const at = address - start;
    return at < 0 || at >= this.#bytes.length ? Buffer.alloc(0) : Buffer.from(this.#bytes.subarray(at, at + sizeBytes));
  };

  object(type: number, words: readonly number[]): number {
    const map = this.#reserve(16);
    this.#bytes.writeUInt16LE(type, map + 12);
    const at = this.#reserve(8 + words.length * 8);
    for (const [index, word] of [start + map + 1, ...words].entries()) this.#bytes.writeBigUInt64LE(BigInt(word), at + index * 8);
    return start + at + 1;
  }

  string(text: string, type = types.oneByteString): number {
    const encoded = Buffer.from(text, type === types.twoByteString ? "utf16le" : "latin1");
    const pointer = this.object(type, [small(text.length), ...Array.from({ length: Math.ceil(encoded.length / 8) }, () => 0)]);
    encoded.copy(this.#bytes, pointer - 1 - start + 16);
    return pointer;
  }

  #reserve(sizeBytes: number): number {
    const at = this.#end;
    this.#end += Math.ceil(sizeBytes / 8) * 8;
    return at;
  }
}

const small = (value: number): number => value * 2 ** 32;

function functionIn(heap: Heap, nameOrScope: number, script: number): number {
  return heap.object(layout.types.shared, [0, nameOrScope, 0, script, 0, 0, 0, 0]);
}

function scriptIn(heap: Heap, file: string, source: string): number {
  return heap.object(layout.types.script, [heap.string(source), heap.string(file), 0, 0, 0, 0, 0]);
}

describe("V8Functions", () => {
  it("names a function by its scope, with file and first line", () => {
    const heap = new Heap();
    const local = heap.string("orders");
    // Flags, parameters, one local with its name and kind, the function's name, its start and end.
    const scope = heap.object(layout.types.scope, [0, 0, small(1), local, small(3), heap.string("handleCheckout"), small(12), small(40)]);
    const pointer = functionIn(heap, scope, scriptIn(heap, "file:///srv/shop/cart.mjs", "let a = 1;\nfunction handleCheckout() {\n}\n"));
    expect(new V8Functions(layout, heap.read).find(pointer, 0)).toEqual({
      name: "handleCheckout",
      file: "file:///srv/shop/cart.mjs",
      line: 2,
    });
  });

  it.for([
    ["one byte per character", (heap: Heap) => heap.string("charge"), "charge"],
    ["two bytes per character", (heap: Heap) => heap.string("žádost", types.twoByteString), "žádost"],
    ["two parts", (heap: Heap) => heap.object(types.consString, [small(6), heap.string("char"), heap.string("ge")]), "charge"],
    ["no text", (heap: Heap) => heap.string(""), "(anonymous)"],
    ["something else", (heap: Heap) => heap.object(types.fixedArray, [0]), "(anonymous)"],
  ] as const)("reads a name with %s", ([, nameIn, expected]) => {
    const heap = new Heap();
    expect(new V8Functions(layout, heap.read).find(functionIn(heap, nameIn(heap), 0), 0)?.name).toBe(expected);
  });

  it("returns no name for a pointer to something else, and checks again after a second", () => {
    const heap = new Heap();
    const functions = new V8Functions(layout, heap.read);
    expect(functions.find(heap.string("moved"), 0)).toBeNull();
    expect(functions.find(0, 0)).toBeNull();
    expect(functions.find(start + 65_536 * 2 + 1, 0)).toBeNull();
  });

  it("terminates on any memory", () => {
    const random = new SeededRandom(18);
    for (let round = 0; round < 300; round++) {
      const words = Array.from({ length: 512 }, () => (random.below(3) === 0 ? random.below(2 ** 32) : start + random.below(512) * 8 + 1));
      const bytes = Buffer.alloc(4096);
      for (const [index, word] of words.entries()) bytes.writeBigUInt64LE(BigInt(word), index * 8);
      const read = (address: number, sizeBytes: number): Buffer =>
        address < start ? Buffer.alloc(0) : Buffer.from(bytes.subarray(address - start, Math.max(0, address - start + sizeBytes)));
      const functions = new V8Functions({ ...layout, types: { shared: 1, script: 2, scope: 3 } }, read);
      for (let at = 0; at < 512; at++) functions.find(start + at * 8 + 1, round);
    }
  });
});

describe("readV8Layout()", () => {
  it("reads the description in this Node executable, without pointer compression", () => {
    const fd = openSync(process.execPath, "r");
    try {
      const image = readElfImage((into, offset) => readSync(fd, into, 0, into.length, offset));
      const found = image === null ? null : readV8Layout(image);
      expect(found?.shared.name).toBeGreaterThan(0);
      expect(new Set(Object.values(found?.types ?? {})).size).toBe(3);
      expect(found?.scope.firstLocal).toBeGreaterThan(found?.scope.localCount ?? 0);
    } finally {
      closeSync(fd);
    }
  });
});
