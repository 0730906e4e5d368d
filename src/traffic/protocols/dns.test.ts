import { describe, expect, it } from "vitest";
import { createDnsDecoder, parseDnsMessage } from "./dns.ts";
import { dnsTcp, dnsTcpRefused, dnsUdp } from "./recorded.fixture.ts";
import { Replay } from "./replay.fixture.ts";

function query(name: string, type = 1, flags = 0x0100): Buffer {
  const labels = name.split(".").map((label) => `${String.fromCharCode(label.length)}${label}`);
  const head = Buffer.from("123400000001000000000000", "hex");
  head.writeUInt16BE(flags, 2);
  return Buffer.concat([head, Buffer.from(`${labels.join("")}\0\0${String.fromCharCode(type)}\0\x01`, "latin1")]);
}

describe("parseDnsMessage()", () => {
  it("parses queries and replies of a real server", () => {
    const read = dnsUdp.flat().map((text) => {
      const bytes = Buffer.from(text, "base64");
      return parseDnsMessage(bytes, 0, bytes.length);
    });
    expect(read).toEqual([
      { id: 0x1234, isReply: false, rcode: "NOERROR", type: "A", route: "www.x.test" },
      { id: 0x1234, isReply: true, rcode: "NOERROR", type: "A", route: "www.x.test" },
      { id: 7, isReply: false, rcode: "NOERROR", type: "AAAA", route: "nothere.example" },
      { id: 7, isReply: true, rcode: "REFUSED", type: "AAAA", route: "nothere.example" },
      { id: 9, isReply: false, rcode: "NOERROR", type: "PTR", route: "{id}.in-addr.arpa" },
      { id: 9, isReply: true, rcode: "REFUSED", type: "PTR", route: "{id}.in-addr.arpa" },
    ]);
  });

  it.each([
    ["WWW.Example.COM", "www.example.com"],
    ["550e8400-e29b-41d4-a716-446655440000.api.example.com", "{id}.api.example.com"],
    ["4f2a9c01be77.cdn.example.com", "{id}.cdn.example.com"],
    ["ip-10-2-3-44.ec2.internal", "{id}.ec2.internal"],
    ["10-244-1-7.default.pod.cluster.local", "{id}.default.pod.cluster.local"],
    ["web-1.web.default.svc.cluster.local", "web-1.web.default.svc.cluster.local"],
    ["a.b.c.d.1.2.ip6.arpa", "{id}.ip6.arpa"],
    ["mfzwizltoqzgk43tmfzwizltoqzgk43tm.tunnel.example.com", "{id}.tunnel.example.com"],
    ["_ldap._tcp.example.com", "_ldap._tcp.example.com"],
    ["12345678.com", "12345678.com"],
    ["we\x07ird.example.com", "we?ird.example.com"],
  ])("makes a route of %s", (name, route) => {
    const bytes = query(name);
    expect(parseDnsMessage(bytes, 0, bytes.length)?.route).toBe(route);
  });

  it("parses the root and types without a name", () => {
    const root = Buffer.concat([query("x").subarray(0, 12), Buffer.from("0000020001", "hex")]);
    expect(parseDnsMessage(root, 0, root.length)).toMatchObject({ route: ".", type: "NS" });
    const odd = query("example.com", 99);
    expect(parseDnsMessage(odd, 0, odd.length)).toMatchObject({ type: "TYPE99" });
  });

  it.each([
    ["a short one", query("example.com").subarray(0, 20)],
    ["another operation", query("example.com", 1, 0x2000)],
    ["text", Buffer.from("GET / HTTP/1.1\r\nHost: example.com\r\n")],
    ["a pointer for a name", Buffer.from("123401000001000000000000c00c00010001", "hex")],
    ["nothing", Buffer.alloc(0)],
  ])("refuses %s", (_, bytes) => {
    expect(parseDnsMessage(bytes, 0, bytes.length)).toBeNull();
  });
});

describe("createDnsDecoder()", () => {
  it("pairs messages over TCP by their id", () => {
    expect(new Replay(createDnsDecoder).play(dnsTcp).close().lines).toEqual(["A | www.x.test | NOERROR"]);
    expect(new Replay(createDnsDecoder).play(dnsTcpRefused).close().lines).toEqual(["MX | nothere.example | REFUSED!"]);
  });

  it("counts NXDOMAIN as a success, and reads length and message from separate payloads", () => {
    const sent = query("gone.example.com");
    const replied = query("gone.example.com", 1, 0x8183);
    const length = (bytes: Buffer) => Buffer.from([0, bytes.length]);
    const replay = new Replay(createDnsDecoder).request(length(sent)).request(sent).reply(length(replied)).reply(replied);
    expect(replay.lines).toEqual(["A | gone.example.com | NXDOMAIN"]);
    expect(replay.requests[0]).toMatchObject({ durationNs: 3_000_000, firstByteNs: 2_000_000 });
  });

  it("does not mistake a message without its length for a length, with any id", () => {
    const sent = query("a.x.test");
    const replied = query("a.x.test", 1, 0x8180);
    // The id equals the length of the rest, so the payload alone looks like one complete message.
    for (const message of [sent, replied]) message.writeUInt16BE(message.length - 2, 0);
    const length = Buffer.from([0, sent.length]);
    const replay = new Replay(createDnsDecoder).request(length).request(sent).reply(length).reply(replied);
    expect(replay.lines).toEqual(["A | a.x.test | NOERROR"]);
    expect(replay.undecodedCount).toBe(0);
  });
});
