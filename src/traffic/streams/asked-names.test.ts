import { describe, expect, it } from "vitest";
import type { LossKind } from "../core/messages.ts";
import { AskedNames } from "./asked-names.ts";
import type { PayloadRecord } from "./payload-streams.ts";

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

describe("AskedNames", () => {
  it("tells what servers are asked for, and what clients ask of addresses, once a window", () => {
    const asked = new AskedNames(() => undefined);
    for (const name of ["shop.example", "shop.example", "api.example"]) asked.onHello(record("server", hello(name)));
    for (const name of ["pay.example", "pay.example"]) asked.onHello(record("client", hello(name)));
    expect(asked.take()).toEqual({
      names: [
        { pid: 7, port: 8443, source: "tls_sni", name: "shop.example", requests: 2 },
        { pid: 7, port: 8443, source: "tls_sni", name: "api.example", requests: 1 },
      ],
      peerNames: [{ address: "192.0.2.1", port: 443, name: "pay.example", source: "tls_sni" }],
    });
    expect(asked.take()).toEqual({ names: [], peerNames: [] });
  });

  it("passes over what is no such message", () => {
    const asked = new AskedNames(() => undefined);
    asked.onHello(record("server", Buffer.from("GET / HTTP/1.1\r\n\r\n")));
    asked.onHello(record(null, hello("shop.example")));
    expect(asked.take()).toEqual({ names: [], peerNames: [] });
  });

  it("counts names above its bound as lost", () => {
    const losses: [LossKind, number][] = [];
    const asked = new AskedNames((loss, count) => losses.push([loss, count]));
    for (let index = 0; index < 4100; index++) asked.onHello(record("client", hello(`n${index}.example`)));
    expect(asked.take().peerNames).toHaveLength(4096);
    expect(losses).toHaveLength(4);
  });
});
