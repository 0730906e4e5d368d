import { endianness } from "node:os";
import { describe, expect, it } from "vitest";
import { createAddressTexts, decodeAddress, isLinkLocal, isLoopback, isWildcard, withoutMapping } from "./ip-address.ts";

describe("decodeAddress()", () => {
  it.each([
    ["0100007F", "127.0.0.1"],
    ["00000000", "0.0.0.0"],
    ["0A01A8C0", "192.168.1.10"],
    ["00000000000000000000000000000000", "::"],
    ["00000000000000000000000001000000", "::1"],
    ["0000000000000000FFFF00000100007F", "::ffff:127.0.0.1"],
    ["B80D0120000000000000000001000000", "2001:db8::1"],
    ["000080FE00000000FF5C50020000FE00", "fe80::250:5cff:fe:0"],
    ["010002000300040005000600070008FF", "2:1:4:3:6:5:ff08:7"],
  ])("reads %s as %s", (hex, expected) => {
    expect(decodeAddress(hex, "LE")).toBe(expected);
  });

  it("reads words in big-endian order", () => {
    expect(decodeAddress("7F000001", "BE")).toBe("127.0.0.1");
    expect(decodeAddress("20010DB8000000000000000000000001", "BE")).toBe("2001:db8::1");
  });

  it.each(["", "0100007", "0100007G", "0100007F00"])("rejects %j", (hex) => {
    expect(decodeAddress(hex)).toBeNull();
  });
});

describe("createAddressTexts()", () => {
  const word = (hex: string): number => Number.parseInt(hex, 16);

  it.runIf(endianness() === "LE")("agrees with decodeAddress(), and converts mapped addresses to IPv4", () => {
    const texts = createAddressTexts();
    for (let round = 0; round < 2; round++) {
      expect(texts.ipv4(word("0A01A8C0"))).toBe("192.168.1.10");
      expect(texts.ipv4(word("FFFFFFFF"))).toBe("255.255.255.255");
      expect(texts.ipv6(word("B80D0120"), 0, 0, word("01000000"))).toBe("2001:db8::1");
      expect(texts.ipv6(0, 0, word("FFFF0000"), word("0100007F"))).toBe("127.0.0.1");
    }
  });

  it("clears its cache when full", () => {
    const texts = createAddressTexts();
    for (let value = 0; value < 70_000; value++) texts.ipv4(value);
    expect(texts.ipv4(0)).toBe("0.0.0.0");
  });
});

describe("kinds of addresses", () => {
  it("recognises loopback, link-local, wildcard and mapped addresses", () => {
    expect(["127.0.0.1", "127.8.8.8", "::1"].every(isLoopback)).toBe(true);
    expect(["128.0.0.1", "::", "::2"].some(isLoopback)).toBe(false);
    expect(["fe80::1", "febf::1", "169.254.1.2"].every(isLinkLocal)).toBe(true);
    expect(["fec0::1", "169.253.1.2", "fe80"].some(isLinkLocal)).toBe(false);
    expect([isWildcard("0.0.0.0"), isWildcard("::"), isWildcard("0.0.0.1")]).toEqual([true, true, false]);
    expect([withoutMapping("::ffff:10.0.0.1"), withoutMapping("::ffff:1"), withoutMapping("10.0.0.1")]).toEqual([
      "10.0.0.1",
      "::ffff:1",
      "10.0.0.1",
    ]);
  });
});
