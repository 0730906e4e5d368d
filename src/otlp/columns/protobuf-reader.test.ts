import { describe, expect, it } from "vitest";
import { varint } from "../decode/otlp-encoder.fixture.ts";
import { MalformedError, ProtobufReader } from "./protobuf-reader.ts";

function readerOf(...bytes: number[]): ProtobufReader {
  const reader = new ProtobufReader();
  reader.open(Uint8Array.from(bytes));
  return reader;
}

describe("ProtobufReader", () => {
  it.each([0, 1, 127, 128, 300, 2 ** 21, 2 ** 28 - 1, 2 ** 32 - 1, 2 ** 35 + 7, 2 ** 49 - 1, Number.MAX_SAFE_INTEGER])(
    "reads varint %d",
    (value) => {
      const reader = readerOf(...varint(value));
      expect(reader.uint()).toBe(value);
      expect(reader.at).toBe(varint(value).length);
    },
  );

  it.each([0n, -1n, 2n ** 63n - 1n, -(2n ** 63n), 2n ** 49n, 2n ** 53n + 1n, -123_456_789_012_345_678n])(
    "reads int64 %d exactly",
    (value) => {
      expect(readerOf(...varint(value)).int64()).toBe(value);
    },
  );

  it.each([0, -1, 1, -64, 2 ** 31 - 1, -(2 ** 31)])("reads int32 %d", (value) => {
    expect(readerOf(...varint(value)).int32()).toBe(value);
  });

  it.each([
    [0, 0],
    [1, -1],
    [2, 1],
    [2 ** 32 - 1, -(2 ** 31)],
    [2 ** 32 - 2, 2 ** 31 - 1],
  ])("reads zigzag %d as %d", (sent, value) => {
    expect(readerOf(...varint(sent)).sint32()).toBe(value);
  });

  it.each<[string, number[], (reader: ProtobufReader) => void]>([
    ["a number that ends too early", [0x80], (reader) => reader.uint()],
    ["no bytes at all", [], (reader) => reader.uint()],
    ["a number of eleven bytes", Array<number>(11).fill(0x80), (reader) => reader.uint()],
    ["a length beyond the message", [5, 1, 2], (reader) => reader.end(3)],
    ["a huge length", [0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f], (reader) => reader.end(8)],
    ["field number 0", [2], (reader) => reader.tag()],
    ["a field number of more than 29 bits", [0x80, 0x80, 0x80, 0x80, 0x10], (reader) => reader.tag()],
    ["wire type 6", [0], (reader) => reader.skip(14, 1)],
    ["wire type 7", [0], (reader) => reader.skip(15, 1)],
    ["the end of a group without a start", [0], (reader) => reader.skip(12, 1)],
    ["a short fixed64", [1, 2, 3], (reader) => reader.skip(9, 3)],
    ["a short fixed32", [1, 2, 3], (reader) => reader.skip(13, 3)],
    ["a group that does not end", [8, 1], (reader) => reader.skip(11, 2)],
    ["a group whose end has another number", [20], (reader) => reader.skip(11, 1)],
    ["groups that are nested too deep", Array<number>(100).fill(11), (reader) => reader.skip(11, 100)],
  ])("refuses %s", (_name, bytes, read) => {
    expect(() => read(readerOf(...bytes))).toThrow(MalformedError);
  });

  it("skips groups, including nested ones", () => {
    const reader = readerOf(8, 1, 19, 8, 2, 20, 12, 99);
    reader.skip(11, 8);
    expect(reader.at).toBe(7);
  });
});
