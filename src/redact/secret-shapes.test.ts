import { describe, expect, it } from "vitest";
import { mask } from "./mask.ts";
import { redactKnownShapes } from "./secret-shapes.ts";

describe("redactKnownShapes()", () => {
  it.each([
    ["4111111111111111", mask],
    ['{"card":"4111 1111 1111 1111"}', `{"card":"${mask}"}`],
    ["paid with 5500-0055-5555-5559.", `paid with ${mask}.`],
    ["378282246310005", mask],
    ["3782 822463 10005", mask],
  ])("masks the number of a payment card in %s", (text, redacted) => {
    expect(redactKnownShapes(text)).toBe(redacted);
  });

  it.each([
    ["4111111111111112", "its last digit does not fit"],
    ["1763214000000000", "microseconds since 1970"],
    ["order-4111111111111111", "a part of a name"],
    ["41111111111111111", "too long"],
    ["2026-11-15 15:39:02 4111 1111", "too short"],
  ])("does not change %s: %s", (text) => {
    expect(redactKnownShapes(text)).toBe(text);
  });
});
