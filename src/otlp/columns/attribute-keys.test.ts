import { describe, expect, it } from "vitest";
import { AttributeKeys } from "./attribute-keys.ts";
import { ByteWriter, sourceOf } from "./byte-writer.ts";
import { KnownKeys } from "./known-keys.ts";

/** The facts about the next key. */
function entryOf(keys: AttributeKeys, name: string): { code: number; id: number; secrecy: unknown; json: string } {
  const bytes = Buffer.from(name);
  // Surrounded by other bytes, as in a request.
  const around = Buffer.concat([Buffer.from("xx"), bytes, Buffer.from("yy")]);
  const code = keys.codeOf(sourceOf(around), 2, 2 + bytes.length);
  const out = new ByteWriter(16);
  keys.writeTo(out, code);
  return { code, id: keys.idOf(code), secrecy: keys.secrecyOf(code), json: Buffer.from(out.bytes.subarray(0, out.size)).toString() };
}

describe("AttributeKeys", () => {
  it("returns the same facts about a key regardless of earlier keys", () => {
    const keys = new AttributeKeys();
    const names = ["a", "b", "a", "c", "b", "a", "b", "", "c", "a", ""];
    const codes = new Map<string, number>();
    for (const name of names) {
      const { code, json } = entryOf(keys, name);
      expect(json).toBe(`${JSON.stringify(name)}:`);
      expect(codes.get(name) ?? code).toBe(code);
      codes.set(name, code);
    }
    expect(new Set(codes.values()).size).toBe(4);
  });

  it("writes keys as JSON", () => {
    const keys = new AttributeKeys();
    for (const name of ['quo"te', "back\\slash", "new\nline", "ümläut 😀", "http.route"])
      expect(entryOf(keys, name).json).toBe(`${JSON.stringify(name)}:`);
  });

  it("recognises secrets by their names", () => {
    const keys = new AttributeKeys();
    expect([entryOf(keys, "db.password").secrecy, entryOf(keys, "http.route").secrecy]).toEqual(["all", "none"]);
  });

  it("returns the numbers of known keys", () => {
    const keys = new AttributeKeys(
      new KnownKeys([
        ["http.method", 3],
        ["http.request.method", 3],
      ]),
    );
    const names = ["http.method", "http.route", "http.request.method", "", "http.method"];
    expect(names.map((name) => entryOf(keys, name).id)).toEqual([3, -1, 3, -1, 3]);
  });

  it("clears the cache when it is full, and continues as before", () => {
    const keys = new AttributeKeys();
    for (let round = 0; round < 3; round++) {
      for (let index = 0; index < 5_000; index++) {
        const name = `key.${index}`;
        const { code, json } = entryOf(keys, name);
        expect(json).toBe(`"${name}":`);
        expect(code).toBeLessThanOrEqual(4_097);
      }
    }
    expect(entryOf(keys, "key.0").code).toBe(entryOf(keys, "key.0").code);
  });
});
