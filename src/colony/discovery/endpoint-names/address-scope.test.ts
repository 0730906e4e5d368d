import { describe, expect, it } from "vitest";
import { addressScope, canonicalAddress, parseAddress, reverseName } from "./address-scope.ts";

describe("addressScope()", () => {
  it.each([
    ["0.0.0.0", "unspecified"],
    ["0.1.2.3", "reserved"],
    ["127.0.0.1", "loopback"],
    ["127.255.255.255", "loopback"],
    ["128.0.0.0", "public"],
    ["169.254.169.254", "link-local"],
    ["10.255.255.255", "private"],
    ["11.0.0.0", "public"],
    ["9.255.255.255", "public"],
    ["172.15.255.255", "public"],
    ["172.16.0.0", "private"],
    ["172.31.255.255", "private"],
    ["172.32.0.0", "public"],
    ["192.168.1.1", "private"],
    ["192.169.0.0", "public"],
    ["100.63.255.255", "public"],
    ["100.64.0.0", "private"],
    ["100.127.255.255", "private"],
    ["100.128.0.0", "public"],
    ["192.0.2.1", "documentation"],
    ["198.51.100.255", "documentation"],
    ["203.0.113.7", "documentation"],
    ["203.0.114.0", "public"],
    ["198.18.0.1", "reserved"],
    ["198.20.0.0", "public"],
    ["224.0.0.1", "multicast"],
    ["239.255.255.255", "multicast"],
    ["240.0.0.1", "reserved"],
    ["255.255.255.255", "reserved"],
    ["8.8.8.8", "public"],
    ["::", "unspecified"],
    ["::1", "loopback"],
    ["::2", "reserved"],
    ["fe80::1", "link-local"],
    ["febf::1", "link-local"],
    ["fe80::1%eth0", "link-local"],
    ["fec0::1", "private"],
    ["fc00::1", "private"],
    ["fdff:ffff::1", "private"],
    ["2001:db8::1", "documentation"],
    ["2001:db9::1", "public"],
    ["2606:4700::1111", "public"],
    ["3fff:fff::1", "documentation"],
    ["4000::1", "reserved"],
    ["ff02::1", "multicast"],
    ["::ffff:10.0.0.1", "private"],
    ["::ffff:8.8.8.8", "public"],
    ["64:ff9b::10.0.0.1", "private"],
    ["64:ff9b::8.8.8.8", "public"],
    ["64:ff9b:1::1", "private"],
  ])("puts %s into %s", (address, scope) => {
    expect(addressScope(address)).toBe(scope);
  });

  it.each(["", "localhost", "10.0.0", "10.0.0.1/8", "1::2::3", "*", "fe80::1\u001b[31m"])("has no scope for %j", (text) => {
    expect(addressScope(text)).toBeUndefined();
  });
});

describe("canonicalAddress()", () => {
  it.each([
    ["10.0.0.1", "10.0.0.1"],
    ["255.255.255.255", "255.255.255.255"],
    ["::ffff:10.0.0.1", "10.0.0.1"],
    ["::FFFF:0a00:0001", "10.0.0.1"],
    ["2001:DB8:0:0:0:0:0:1", "2001:db8::1"],
    ["2001:0db8::0001:0", "2001:db8::1:0"],
    ["fe80::1%eth0", "fe80::1"],
    ["1:0:0:2:0:0:0:3", "1:0:0:2::3"],
    ["0:0:0:0:0:0:0:0", "::"],
  ])("writes %s as %s", (address, text) => {
    expect(canonicalAddress(address)).toBe(text);
    expect(canonicalAddress(text)).toBe(text);
  });
});

describe("parseAddress()", () => {
  it("unwraps the IPv4 address of NAT64", () => {
    expect(parseAddress("64:ff9b::34dc:ecf8")).toEqual({ text: "64:ff9b::34dc:ecf8", scope: "public", knownAs: "52.220.236.248" });
  });
});

describe("reverseName()", () => {
  it.each([
    ["203.0.113.7", "7.113.0.203.in-addr.arpa"],
    ["2001:db8::567:89ab", "b.a.9.8.7.6.5.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.8.b.d.0.1.0.0.2.ip6.arpa"],
    ["nowhere", undefined],
  ])("of %s is %s", (address, name) => {
    expect(reverseName(address)).toBe(name);
  });
});
