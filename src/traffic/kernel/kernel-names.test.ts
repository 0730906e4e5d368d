import { describe, expect, it } from "vitest";
import { SeededRandom } from "../../base/seeded-random.fixture.ts";
import { learnRecordLayout as layout } from "./kernel-layout.ts";
import { decodeLearnRecord, KernelNames } from "./kernel-names.ts";

const protocols = { http: 1, postgres: 4, redis: 6 } as const;

interface Learned {
  protocol?: keyof typeof protocols;
  role?: number;
  status?: number;
  fingerprint?: bigint;
  bytes: string | Buffer;
}

function record({ protocol = "http", role = 1, status = 0, fingerprint = 42n, bytes }: Learned): Buffer {
  const text = Buffer.from(bytes as string, "latin1");
  const head = Buffer.alloc(layout.sizeBytes);
  head[layout.kind] = 1;
  head[layout.protocol] = protocols[protocol];
  head[layout.role] = role;
  head.writeUInt16LE(text.length, layout.bytes);
  head.writeUInt16LE(8080, layout.server_port);
  head.writeUInt32LE(77, layout.tgid);
  head.writeUInt32LE(status, layout.status);
  head.writeBigUInt64LE(fingerprint, layout.fingerprint);
  Buffer.from("00000000000000000000ffff0a000001", "hex").copy(head, layout.remote);
  return Buffer.concat([head, text]);
}

function decode(bytes: Buffer, length = bytes.length) {
  return decodeLearnRecord(new DataView(bytes.buffer, bytes.byteOffset, bytes.length), 0, length, bytes);
}

function learn(names: KernelNames, learned: Learned): boolean {
  const decoded = decode(record(learned));
  return decoded !== null && names.learn(decoded);
}

/** A message of Postgres: its letter, its length, its content. */
function message(type: string, content: string): Buffer {
  const body = Buffer.from(content, "latin1");
  const head = Buffer.alloc(5);
  head.write(type);
  head.writeUInt32BE(body.length + 4, 1);
  return Buffer.concat([head, body]);
}

describe("decodeLearnRecord()", () => {
  it("reads all fields", () => {
    expect(decode(record({ bytes: "GET / HTTP/1.1\r\n" }))).toMatchObject({
      protocol: "http",
      role: "server",
      serverPort: 8080,
      pid: 77,
      status: 0,
      fingerprint: 42n,
      peerAddress: "10.0.0.1",
    });
  });

  it("rejects a truncated record", () => {
    const bytes = record({ bytes: "GET / HTTP/1.1\r\n" });
    for (let length = 0; length < bytes.length; length++) expect(decode(bytes, length)).toBeNull();
  });

  it("rejects an unknown protocol", () => {
    const bytes = record({ bytes: "" });
    bytes[layout.protocol] = 200;
    expect(decode(bytes)).toBeNull();
  });
});

describe("KernelNames", () => {
  it.each([
    { protocol: "http", bytes: "GET /users/17?token=x HTTP/1.1\r\nHost: shop.test:80\r\n\r\n", method: "GET", route: "/users/{id}" },
    { protocol: "http", bytes: "PROPFIND /dav HTTP/1.1\r\n", method: "PROPFIND", route: "/dav" },
    { protocol: "redis", bytes: "*2\r\n$3\r\nget\r\n$6\r\nsecret\r\n", method: "GET", route: "GET" },
    { protocol: "redis", bytes: "*3\r\n$6\r\nCONFIG\r\n$3\r\nget\r\n$1\r\n*\r\n", method: "CONFIG", route: "CONFIG GET" },
    { protocol: "redis", bytes: "PING\r\n", method: "PING", route: "PING" },
    {
      protocol: "postgres",
      bytes: message("Q", "select 'secret' from t where a = 5\0"),
      method: "SELECT",
      route: "select ? from t where a = ?",
    },
    {
      protocol: "postgres",
      bytes: Buffer.concat([message("C", "Sold\0"), message("P", "name\0insert into t values ($1)\0\0\0"), message("S", "")]),
      method: "INSERT",
      route: "insert into t values (?)",
    },
  ] as const)("names $method $route", ({ protocol, bytes, method, route }) => {
    const names = new KernelNames();
    expect(learn(names, { protocol, bytes: typeof bytes === "string" ? bytes : Buffer.from(bytes) })).toBe(true);
    const name = names.name(42n);
    expect(name?.method).toBe(method);
    expect(name?.route.toLowerCase()).toBe(route.toLowerCase());
    expect(JSON.stringify(name)).not.toContain("secret");
  });

  it("keeps the requested host, by process and port", () => {
    const names = new KernelNames();
    learn(names, { bytes: "GET / HTTP/1.1\r\nHost: Shop.test:8080\r\n\r\n" });
    expect(names.host(42n, 77, "server", 8080, "10.0.0.9")).toBe("shop.test");
    expect(names.host(42n, 78, "server", 8080, "10.0.0.9")).toBeUndefined();
    learn(names, { role: 2, bytes: "GET / HTTP/1.1\r\nHost: api.test\r\n\r\n" });
    expect(names.host(42n, 77, "client", 8080, "10.0.0.1")).toBe("api.test");
    expect(names.host(42n, 77, "client", 8080, "10.0.0.2")).toBeUndefined();
  });

  it("learns the first word of an error, and nothing else of its text", () => {
    const names = new KernelNames();
    learn(names, { protocol: "redis", status: 99, bytes: "-WRONGTYPE Operation against secret" });
    expect(names.status(99)).toBe("WRONGTYPE");
  });

  it("keeps a bounded number of names", () => {
    const names = new KernelNames({ maxNames: 10 });
    for (let index = 0; index < 50; index++) learn(names, { fingerprint: BigInt(index + 2), bytes: `GET /${index}x HTTP/1.1\r\n\r\n` });
    expect(names.size).toBe(10);
    expect(names.name(51n)).toBeDefined();
  });

  it("accepts any bytes", () => {
    const random = new SeededRandom(7);
    const names = new KernelNames();
    for (let round = 0; round < 500; round++) {
      const protocol = (["http", "redis", "postgres"] as const)[random.below(3)] ?? "http";
      const noise = Buffer.from(Array.from({ length: random.below(80) }, () => random.below(256)));
      const start = { http: "GET /", redis: "*3\r\n$", postgres: "P\0\0" }[protocol];
      learn(names, {
        protocol,
        fingerprint: BigInt(round + 2),
        bytes: Buffer.concat([Buffer.from(random.below(2) === 0 ? start : ""), noise]),
      });
    }
    expect(names.size).toBe(500);
  });
});
