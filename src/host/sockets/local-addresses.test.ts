import { networkInterfaces } from "node:os";
import { describe, expect, it } from "vitest";
import { damagedTexts } from "../../base/damaged-texts.fixture.ts";
import { createHostRoot } from "../files/host-root.ts";
import { parseFibTrie, parseIfInet6, readLocalAddresses } from "./local-addresses.ts";

const trie = `Main:
  +-- 0.0.0.0/0 3 0 5
     |-- 0.0.0.0
        /0 universe UNICAST
     +-- 10.0.0.0/24 2 0 2
        |-- 10.0.0.0
           /24 link UNICAST
        |-- 10.0.0.5
           /32 host LOCAL
        |-- 10.0.0.255
           /32 link BROADCAST
Local:
     |-- 127.0.0.1
        /32 host LOCAL
     |-- 10.0.0.5
        /32 host LOCAL
`;

describe("local addresses", () => {
  it("reads those of IPv4 from the routing table", () => {
    expect(parseFibTrie(trie)).toEqual(["10.0.0.5", "127.0.0.1"]);
  });

  it("reads those of IPv6", () => {
    expect(
      parseIfInet6("20010db8000000000000000000000001 02 40 00 80     eth0\nfe80000000000000025056fffe000001 02 40 20 80     eth0\nx\n"),
    ).toEqual(["2001:db8::1", "fe80::250:56ff:fe00:1"]);
  });

  it("tolerates malformed input", () => {
    for (const text of damagedTexts([trie], 61, 200)) {
      expect(parseFibTrie(text).length).toBeLessThan(300);
      expect(parseIfInet6(text)).toEqual([]);
    }
  });

  it("agrees with Node's network interfaces", () => {
    const theirs = Object.values(networkInterfaces())
      .flatMap((list) => list ?? [])
      .filter(({ internal, address }) => !internal && !/^(?:fe[89ab]|169\.254\.|127\.)/.test(address))
      .map(({ address }) => address);
    const ours = readLocalAddresses(createHostRoot(), "/proc/self");
    expect(ours).toEqual(expect.arrayContaining(theirs));
    expect(ours.some((address) => address.startsWith("127.") || address === "::1")).toBe(false);
  });
});
