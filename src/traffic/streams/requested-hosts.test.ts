import { describe, expect, it } from "vitest";
import type { LossKind } from "../core/messages.ts";
import type { PayloadRecord } from "./payload-streams.ts";
import { RequestedHosts } from "./requested-hosts.ts";

/** A ClientHello with nothing but a server name. */
function hello(name: string): Buffer {
  const text = Buffer.from(name);
  const u16 = (value: number): number[] => [value >> 8, value & 255];
  const extension = [0, 0, ...u16(text.length + 5), ...u16(text.length + 3), 0, ...u16(text.length), ...text];
  const body = [3, 3, ...Buffer.alloc(32), 0, 0, 2, 0x13, 1, 1, 0, ...u16(extension.length), ...extension];
  return Buffer.from([22, 3, 1, ...u16(body.length + 4), 1, 0, ...u16(body.length), ...body]);
}

const record = (role: "server" | "client" | null, bytes: Buffer): PayloadRecord =>
  ({ role, bytes, pid: 7, localPort: 8443, peerPort: 443, peerAddress: "192.0.2.1" }) as PayloadRecord;

describe("RequestedHosts", () => {
  it("counts the names by which servers are requested, and collects those of peers, per window", () => {
    const hosts = new RequestedHosts(() => undefined);
    for (const name of ["shop.example", "shop.example", "api.example"]) hosts.onHello(record("server", hello(name)));
    for (const name of ["pay.example", "pay.example"]) hosts.onHello(record("client", hello(name)));
    expect(hosts.take()).toEqual({
      names: [
        { pid: 7, port: 8443, source: "tls_sni", name: "shop.example", requests: 2 },
        { pid: 7, port: 8443, source: "tls_sni", name: "api.example", requests: 1 },
      ],
      peerNames: [{ address: "192.0.2.1", port: 443, name: "pay.example", source: "tls_sni" }],
    });
    expect(hosts.take()).toEqual({ names: [], peerNames: [] });
  });

  it("skips payloads that are not a ClientHello, or of an unknown role", () => {
    const hosts = new RequestedHosts(() => undefined);
    hosts.onHello(record("server", Buffer.from("GET / HTTP/1.1\r\n\r\n")));
    hosts.onHello(record(null, hello("shop.example")));
    expect(hosts.take()).toEqual({ names: [], peerNames: [] });
  });

  it("counts names above its bound as lost", () => {
    const losses: [LossKind, number][] = [];
    const hosts = new RequestedHosts((loss, count) => losses.push([loss, count]));
    for (let index = 0; index < 4100; index++) hosts.onHello(record("client", hello(`n${index}.example`)));
    expect(hosts.take().peerNames).toHaveLength(4096);
    expect(losses).toHaveLength(4);
  });
});
