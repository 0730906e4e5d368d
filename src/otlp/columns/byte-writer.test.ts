import { describe, expect, it } from "vitest";
import { ByteWriter, sourceOf } from "./byte-writer.ts";

function plain(text: Buffer, start = 0): string | undefined {
  const writer = new ByteWriter(4);
  writer.byte(0x7b);
  const isPlain = writer.plainString(sourceOf(text), start, text.length);
  expect(writer.size).toBe(isPlain ? text.length - start + 3 : 1);
  return isPlain ? writer.bytes.toString("latin1", 1, writer.size) : undefined;
}

describe("plainString()", () => {
  it.each(["", "a", "abc", "abcd", "0f8fad5b-d9cb-469f-a165", "/a/{b}?c&d#e", "~!$%^*()_+[]|;:'<>,.`"])(
    "writes %j between quotes",
    (text) => {
      expect(plain(Buffer.from(text))).toBe(`"${text}"`);
      expect(plain(Buffer.from(`xyz${text}`), 3)).toBe(`"${text}"`);
    },
  );

  it("finds every byte that is not plain, at any position", () => {
    const isPlain = (byte: number): boolean => byte > 0x20 && byte < 0x80 && !'"\\=@'.includes(String.fromCharCode(byte));
    for (let byte = 0; byte < 256; byte++) {
      for (let at = 0; at < 11; at++) {
        const text = Buffer.from("abc~efghi\x7f!");
        text[at] = byte;
        expect([byte, at, plain(text)]).toEqual([byte, at, isPlain(byte) ? `"${text.toString("latin1")}"` : undefined]);
      }
    }
  });
});
