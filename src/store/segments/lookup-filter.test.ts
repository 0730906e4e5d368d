import { describe, expect, it } from "vitest";
import { seededRandom } from "../store.fixture.ts";
import { buildLookupFilter, mightContain } from "./lookup-filter.ts";

function randomIds(count: number, seed: number): Uint8Array {
  const random = seededRandom(seed);
  return Uint8Array.from({ length: count * 16 }, () => Math.floor(random() * 256));
}

const idAt = (ids: Uint8Array, index: number): Uint8Array => ids.subarray(index * 16, index * 16 + 16);

describe("buildLookupFilter()", () => {
  it.each([0, 1, 5, 4_000])("finds all of %i ids and few others", (count) => {
    const ids = randomIds(count, 3);
    const filter = buildLookupFilter(ids, count);
    for (let index = 0; index < count; index++) expect(mightContain(filter, idAt(ids, index))).toBe(true);
    const others = randomIds(10_000, 4);
    let hits = 0;
    for (let index = 0; index < 10_000; index++) if (mightContain(filter, idAt(others, index))) hits++;
    expect(hits).toBeLessThan(200);
  });

  it("is sized by distinct ids, and accepts sequential ids", () => {
    const ids = new Uint8Array(20_000 * 16);
    const view = new DataView(ids.buffer);
    for (let index = 0; index < 20_000; index++) view.setUint32(index * 16 + 12, Math.floor(index / 5));
    const filter = buildLookupFilter(ids, 20_000);
    expect(filter.length).toBeLessThan(5_200);
    const other = new Uint8Array(16);
    let hits = 0;
    for (let index = 4_000; index < 14_000; index++) {
      new DataView(other.buffer).setUint32(12, index);
      if (mightContain(filter, other)) hits++;
    }
    expect(hits).toBeLessThan(300);
  });

  it("returns true for an empty filter, and for an id of another length", () => {
    expect(mightContain(new Uint8Array(0), new Uint8Array(16))).toBe(true);
    expect(mightContain(new Uint8Array(8), new Uint8Array(8))).toBe(true);
  });
});
