import { describe, expect, it } from "vitest";
import { ByteDictionary } from "./byte-dictionary.ts";
import { sourceOf } from "./byte-writer.ts";
import { KnownOwners } from "./known-owners.ts";

describe("KnownOwners", () => {
  it("finds the cached value for equal bytes at any position, and for no others", () => {
    const owners = new KnownOwners<string>(new ByteDictionary());
    // 0xff is not valid text: owners are compared as bytes.
    const first = Buffer.from([1, 2, 3, 0xff, 5, 6, 7]);
    owners.keep(sourceOf(first), 0, 7, "seven");
    owners.keep(sourceOf(first), 0, 3, "three");
    owners.keep(sourceOf(first), 0, 0, "none");
    const elsewhere = sourceOf(Buffer.from([9, ...first, 9]));
    expect([owners.find(elsewhere, 1, 8), owners.find(elsewhere, 1, 4), owners.find(elsewhere, 4, 4)]).toEqual(["seven", "three", "none"]);
    for (let at = 1; at < 8; at++) {
      const changed = Buffer.from(elsewhere.bytes);
      changed[at] = (changed[at] as number) ^ 0x10;
      expect(owners.find(sourceOf(changed), 1, 8)).toBeUndefined();
    }
    expect(owners.find(elsewhere, 1, 7)).toBeUndefined();
  });

  it("keeps its own copy of the bytes", () => {
    const owners = new KnownOwners<string>(new ByteDictionary());
    const bytes = Buffer.from("checkout");
    owners.keep(sourceOf(bytes), 0, 8, "checkout");
    bytes.write("billing!");
    expect(owners.find(sourceOf(Buffer.from("checkout")), 0, 8)).toBe("checkout");
    expect(owners.find(sourceOf(bytes), 0, 8)).toBeUndefined();
  });

  it("drops everything when the dictionary is reset", () => {
    const dictionary = new ByteDictionary();
    const owners = new KnownOwners<string>(dictionary);
    const source = sourceOf(Buffer.from("checkout"));
    owners.keep(source, 0, 8, "checkout");
    dictionary.reset();
    expect(owners.find(source, 0, 8)).toBeUndefined();
  });

  it("keeps at most 1,024 owners, and no large ones", () => {
    const owners = new KnownOwners<number>(new ByteDictionary());
    const sources = Array.from({ length: 1_100 }, (_, index) => sourceOf(Buffer.from(`service-${index}`)));
    for (const [index, source] of sources.entries()) owners.keep(source, 0, source.bytes.length, index);
    expect(sources.filter((source) => owners.find(source, 0, source.bytes.length) !== undefined).length).toBe(1_024);
    const large = sourceOf(Buffer.alloc(3_000, 1));
    const others = new KnownOwners<number>(new ByteDictionary());
    others.keep(large, 0, 3_000, 1);
    expect(others.find(large, 0, 3_000)).toBeUndefined();
  });
});
