import { once } from "node:events";
import { type AddressInfo, createServer } from "node:net";
import { connect } from "node:tls";
import { describe, expect, it } from "vitest";
import { SeededRandom } from "../../base/seeded-random.fixture.ts";
import { parseClientHello } from "./client-hello.ts";

/** The first bytes that Node's TLS client sends. */
async function recordHello(options: { servername?: string; ALPNProtocols?: string[] }): Promise<Buffer> {
  const server = createServer();
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const client = connect({ port: (server.address() as AddressInfo).port, host: "127.0.0.1", rejectUnauthorized: false, ...options });
  client.on("error", () => {});
  const [socket] = await once(server, "connection");
  const [bytes] = await once(socket, "data");
  client.destroy();
  socket.destroy();
  server.close();
  return bytes;
}

/** Splits one record into several. */
function fragment(hello: Buffer, size: number): Buffer {
  const parts: Buffer[] = [];
  for (let at = 5; at < hello.length; at += size) {
    const part = hello.subarray(at, at + size);
    parts.push(Buffer.from([22, 3, 1, part.length >> 8, part.length & 255]), part);
  }
  return Buffer.concat(parts);
}

describe("parseClientHello()", () => {
  it("reads the name and protocols that Node sends", async () => {
    const hello = await recordHello({ servername: "Shop.Example.com", ALPNProtocols: ["h2", "http/1.1"] });
    expect(parseClientHello(hello)).toEqual({ serverName: "shop.example.com", protocols: ["h2", "http/1.1"], isComplete: true });
    for (const size of [1, 7, 100]) {
      expect(parseClientHello(fragment(hello, size))).toEqual({
        serverName: "shop.example.com",
        protocols: ["h2", "http/1.1"],
        isComplete: true,
      });
    }
    expect(parseClientHello(Buffer.concat([hello, Buffer.from([20, 3, 3, 0, 1, 1])]))?.serverName).toBe("shop.example.com");
  });

  it("reads a ClientHello without either", async () => {
    expect(parseClientHello(await recordHello({}))).toEqual({ serverName: null, protocols: [], isComplete: true });
  });

  it("reads what is left of a truncated one", async () => {
    const hello = await recordHello({ servername: "a.example", ALPNProtocols: ["h2"] });
    let names = 0;
    for (let length = 0; length < hello.length; length++) {
      const cut = parseClientHello(hello.subarray(0, length));
      if (length < 11) expect(cut).toBeNull();
      else expect(cut?.isComplete).toBe(false);
      if (cut?.serverName) names++;
      expect(cut?.serverName ?? "a.example").toBe("a.example");
    }
    expect(names).toBeGreaterThan(0);
  });

  it.each(["", "16", "160301", "1603010005", "16030100050200000103", "150301000201", "160201000501000001 03", "47455420", "160301480101"])(
    "refuses %j",
    (hex) => {
      expect(parseClientHello(Buffer.from(hex.replaceAll(" ", ""), "hex"))).toBeNull();
    },
  );

  it("rejects an invalid name", async () => {
    const hello = await recordHello({ servername: "abcdefgh" });
    const at = hello.indexOf("abcdefgh");
    for (const bad of ["abc\u0000defg", "abc defg", "../../..", "<script>"]) {
      const changed = Buffer.from(hello);
      changed.write(bad, at, "latin1");
      expect(parseClientHello(changed)?.serverName ?? null).toBe(null);
    }
  });

  it("terminates on damaged bytes, within bounds", async () => {
    const hello = await recordHello({ servername: "a.example", ALPNProtocols: ["h2"] });
    const random = new SeededRandom(5);
    for (let round = 0; round < 5000; round++) {
      const damaged = Buffer.from(hello.subarray(0, 11 + random.below(hello.length)));
      for (let change = 0; change < 3; change++) damaged[random.below(damaged.length)] = random.below(256);
      const read = parseClientHello(damaged);
      expect((read?.protocols.length ?? 0) <= 16 && (read?.serverName?.length ?? 0) <= 253).toBe(true);
    }
    expect(parseClientHello(fragment(Buffer.concat([hello, Buffer.alloc(1_000_000)]), 1))?.serverName).toBe("a.example");
  });
});
