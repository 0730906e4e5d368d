import { describe, expect, it } from "vitest";
import { SeededRandom } from "../../../base/seeded-random.fixture.ts";
import { cleanHostName } from "./host-name.ts";

describe("cleanHostName()", () => {
  it.each([
    ["lb-prod.example.com", "lb-prod.example.com"],
    ["LB.Example.COM.", "lb.example.com"],
    ["xn--bcher-kva.example", "xn--bcher-kva.example"],
    ["_service._tcp.example.com", "_service._tcp.example.com"],
    ["db1", "db1"],
    [`${"a".repeat(63)}.b`, `${"a".repeat(63)}.b`],
  ])("keeps %j", (raw, name) => {
    expect(cleanHostName(raw)).toBe(name);
  });

  it.each([
    "",
    ".",
    "a..b",
    ".a",
    "a b.example",
    "-a.example",
    "a-.example",
    "\u001b[31mred.example",
    "a\u0000.example",
    "a\n.example",
    "a\\032b.example",
    "bücher.example",
    "<script>.example",
    "'; drop table x; --.example",
    "192.0.2.1",
    "1.2.0.192.in-addr.arpa",
    "localhost",
    "localhost.localdomain",
    `${"a".repeat(64)}.example`,
    `${"a.".repeat(127)}aa`,
    "a".repeat(100_000),
  ])("refuses %j", (raw) => {
    expect(cleanHostName(raw)).toBeUndefined();
  });

  it("accepts nothing but plain characters, for seeded random names", () => {
    const random = new SeededRandom(5);
    for (let round = 0; round < 5_000; round++) {
      const raw = Array.from({ length: 1 + random.below(12) }, () =>
        random.pick(["a", "Z", "0", "-", "_", ".", "\u0007", "\u009b", "é", "\\", " "]),
      ).join("");
      expect(cleanHostName(raw) ?? "").toMatch(/^[a-z0-9_.-]*$/);
    }
  });
});
