import { isIPv4, isIPv6 } from "node:net";
import { describe, expect, it } from "vitest";
import { parseIpv4, parseIpv6 } from "./ip-parse.ts";

const hex = (text: string): string | undefined =>
  parseIpv6(text)
    ?.map((word) => word.toString(16).padStart(8, "0"))
    .join("");

describe("parseIpv4()", () => {
  it.each([
    ["0.0.0.0", 0],
    ["10.0.0.1", 0x0a000001],
    ["255.255.255.255", 0xffffffff],
    ["203.0.113.7", 0xcb007107],
  ])("reads %s", (text, bits) => {
    expect(parseIpv4(text)).toBe(bits);
  });

  it.each([
    "",
    ".",
    "1",
    "1.2.3",
    "1.2.3.",
    ".1.2.3",
    "1..2.3",
    "1.2.3.4.5",
    "256.1.1.1",
    "01.2.3.4",
    "00.0.0.0",
    "1.2.3.4 ",
    "1.2.3.a",
    "١.2.3.4",
  ])("rejects %j", (text) => {
    expect(parseIpv4(text)).toBeUndefined();
  });
});

describe("parseIpv6()", () => {
  it.each([
    ["::", "00000000000000000000000000000000"],
    ["::1", "00000000000000000000000000000001"],
    ["1::", "00010000000000000000000000000000"],
    ["2001:db8::8:800:200c:417a", "20010db80000000000080800200c417a"],
    ["2001:DB8:0:0:8:800:200C:417A", "20010db80000000000080800200c417a"],
    ["1:2:3:4:5:6:7::", "00010002000300040005000600070000"],
    ["::ffff:203.0.113.7", "00000000000000000000ffffcb007107"],
    ["64:ff9b::1.2.3.4", "0064ff9b000000000000000001020304"],
    ["1:2:3:4:5:6:1.2.3.4", "00010002000300040005000601020304"],
    ["ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff", "ffffffffffffffffffffffffffffffff"],
  ])("reads %s", (text, bits) => {
    expect(hex(text)).toBe(bits);
  });

  it.each([
    "",
    ":",
    ":::",
    "1",
    "1:",
    ":1",
    "1:2:3:4:5:6:7",
    "1:2:3:4:5:6:7:8:9",
    "1:2:3:4:5:6:7:8::",
    "::1:2:3:4:5:6:7:8",
    "1::2::3",
    "12345::",
    "g::",
    "::1%eth0",
    "::1.2.3",
    "::1.2.3.4:5",
    "1.2.3.4",
    "1:2:3:4:5:6:7:1.2.3.4",
    "::1 ",
  ])("rejects %j", (text) => {
    expect(parseIpv6(text)).toBeUndefined();
  });

  it("agrees with node:net on seeded random texts", () => {
    let seed = 20_261_115;
    const next = (limit: number): number => {
      seed = (Math.imul(seed, 1_664_525) + 1_013_904_223) >>> 0;
      return Math.floor((seed / 2 ** 32) * limit);
    };
    const parts = [":", "::", ".", "0", "1", "25", "255", "256", "ffff", "db8", "a", "F", "12345", "1.2.3.4"];
    let valid = 0;
    const disagreed: string[] = [];
    for (let round = 0; round < 60_000; round++) {
      const text = Array.from({ length: 1 + next(15) }, () => parts[next(parts.length)]).join("");
      valid += isIPv6(text) || isIPv4(text) ? 1 : 0;
      if ((parseIpv6(text) !== undefined) !== isIPv6(text) || (parseIpv4(text) !== undefined) !== isIPv4(text)) disagreed.push(text);
    }
    expect(disagreed).toEqual([]);
    expect(valid).toBeGreaterThan(100);
  });
});
