import { describe, expect, it } from "vitest";
import { SeededRandom } from "../../base/seeded-random.fixture.ts";
import { templateRoute } from "../requests/route-template.ts";

const digits = "0123456789";
const hex = "0123456789abcdef";
const letters = "ghijklmnopqrstuvwxyzGHIJKLMNOPQRSTUVWXYZ";

/** The rule of http1_end_segment() in probes/protocol/http1-head.h. */
function isMaskedInKernel(segment: string): boolean {
  const count = segment.replace(/\D/g, "").length;
  if (/^\d+$/.test(segment)) return true;
  if (/^[0-9a-fA-F]+$/.test(segment) && segment.length >= 8 && count >= 3) return true;
  if (/^[0-9a-fA-F-]{36}$/.test(segment) && count >= 4) return true;
  return /^[0-9a-zA-Z]+$/.test(segment) && count >= 4 && (segment.length >= 20 || (count >= 5 && count * 2 >= segment.length));
}

/** Paths with one fingerprint in the kernel share the name of the first, so they must be one route. */
describe("paths with the same fingerprint in the kernel", () => {
  it("templateRoute() masks every segment that the kernel masks", () => {
    const random = new SeededRandom(11);
    const pick = (alphabet: string, length: number) => Array.from({ length }, () => alphabet[random.below(alphabet.length)]).join("");
    const kept = new Set<string>();
    for (let round = 0; round < 4000; round++) {
      const alphabet =
        [digits, hex, hex.toUpperCase(), digits + letters, hex + letters, digits + digits + letters][random.below(6)] ?? digits;
      const segment = pick(alphabet, 1 + random.below(40));
      if (isMaskedInKernel(segment) && templateRoute(`/orders/${segment}/lines`) !== "/orders/{id}/lines") kept.add(segment);
    }
    const uuid = `${pick(hex, 8)}-${pick(hex, 4)}-4${pick(hex, 3)}-8${pick(hex, 3)}-${pick(hex, 12)}`;
    expect(templateRoute(`/orders/${uuid}`)).toBe("/orders/{id}");
    expect([...kept]).toEqual([]);
  });

  it.each(["api", "rest", "version", "ver", "v"])("templateRoute() keeps a version after %s, as the kernel does", (parent) => {
    expect(templateRoute(`/${parent}/2/orders`)).toBe(`/${parent}/2/orders`);
  });
});
