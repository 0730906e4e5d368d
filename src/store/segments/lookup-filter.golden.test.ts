/** Golden bits of the look-up filter, which the manifest stores. Another hash or probe sequence would miss ids in stored segments. */

import { describe, expect, it } from "vitest";
import { buildLookupFilter, mightContain } from "./lookup-filter.ts";

const ids = ["327fbcafc916e187d1dd45414a6137ea", "cd3d4eb485fd695f47e562af6c692c12", "cb4aec889ac858d52812a44cc47d1c10"].map((hex) =>
  Buffer.from(hex, "hex"),
);
const golden = "042201fe08884011";

describe("the look-up filter format", () => {
  it("has not changed", () => {
    expect(Buffer.from(buildLookupFilter(Buffer.concat(ids), ids.length)).toString("hex")).toBe(golden);
  });

  it("finds the ids of a stored filter, and no others", () => {
    const filter = Buffer.from(golden, "hex");
    expect(ids.map((id) => mightContain(filter, id))).toEqual([true, true, true]);
    expect(mightContain(filter, Buffer.from("00112233445566778899aabbccddeeff", "hex"))).toBe(false);
  });
});
