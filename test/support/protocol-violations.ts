/** Protocol violations by clients, generated from a seed: the same seed generates the same bytes. */

import { seededBytes } from "./seeded-random.ts";

export type ViolatedProtocol = "http" | "http2" | "redis" | "postgres" | "mysql" | "tls";

export interface Violation {
  protocol: ViolatedProtocol;
  /** One element per write. */
  sends: Buffer[];
  /** `linger`: the connection stays half-open until the end of the test. */
  end: "close" | "reset" | "linger";
}

type Random = () => number;

const ends = ["close", "close", "reset", "reset", "linger"] as const;

export function violation(random: Random, protocol: ViolatedProtocol): Violation {
  const makers = makersOf[protocol];
  const made = pick(random, makers)(random);
  const mutated = random() < 0.25 ? flipBits(random, made) : made;
  return { protocol, sends: cut(random, mutated), end: pick(random, ends) };
}

function pick<T>(random: Random, values: readonly T[]): T {
  return values[Math.floor(random() * values.length)] as T;
}

const between = (random: Random, low: number, high: number): number => low + Math.floor(random() * (high - low));
const text = (value: string): Buffer => Buffer.from(value, "latin1");
const noise = (random: Random, high = 400): Buffer => seededBytes(random, between(random, 1, high));

function int(value: number, bytes: number): Buffer {
  const buffer = Buffer.alloc(bytes);
  buffer.writeUIntBE(value, 0, bytes);
  return buffer;
}

function flipBits(random: Random, bytes: Buffer): Buffer {
  const copy = Buffer.from(bytes);
  for (let flips = between(random, 1, 8); flips > 0; flips--) {
    const at = between(random, 0, copy.length);
    copy[at] = (copy[at] ?? 0) ^ (1 << between(random, 0, 8));
  }
  return copy;
}

/** Splits bytes into one to four pieces. */
function cut(random: Random, bytes: Buffer): Buffer[] {
  const at = Array.from({ length: between(random, 0, 4) }, () => between(random, 0, bytes.length)).sort((left, right) => left - right);
  return [0, ...at].map((from, index) => bytes.subarray(from, at[index] ?? bytes.length)).filter(({ length }) => length > 0);
}

const head = (line: string, ...headers: string[]): Buffer => text(`${[line, "Host: violated.test", ...headers].join("\r\n")}\r\n\r\n`);

const http: readonly ((random: Random) => Buffer)[] = [
  (random) => Buffer.concat([text("GET "), noise(random)]),
  () => text("GET /half/of/a/head HTTP/1.1\r\nHost: violated.te"),
  () => head("POST /too/long HTTP/1.1", "Content-Length: 1000000"),
  (random) => Buffer.concat([head("POST /too/short HTTP/1.1", "Content-Length: 3"), noise(random)]),
  () => head("POST /negative HTTP/1.1", "Content-Length: -1"),
  () => head("POST /huge HTTP/1.1", `Content-Length: ${"9".repeat(40)}`),
  () => head("POST /both HTTP/1.1", "Content-Length: 5", "Transfer-Encoding: chunked"),
  (random) => Buffer.concat([head("POST /chunks HTTP/1.1", "Transfer-Encoding: chunked"), text("ffffffffff\r\n"), noise(random)]),
  () => head("GET /version HTTP/9.9"),
  () => text("GET\t/tabs\tHTTP/1.1\n\n"),
  () => text("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"),
  () => head(`GET /${"long/".repeat(4_000)} HTTP/1.1`),
  () => head("GET /headers HTTP/1.1", ...Array.from({ length: 900 }, (_, index) => `X-${index}: ${index}`)),
  (random) => Buffer.concat([head("GET /then HTTP/1.1"), noise(random), head("GET /again HTTP/1.1")]),
  () => text("GET /nul\0\0 HTTP/1.1\r\nHost: a\0b\r\n\r\n"),
];

const preface = text("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n");

function frame(kind: number, flags: number, stream: number, body: Buffer, length = body.length): Buffer {
  return Buffer.concat([int(length, 3), int(kind, 1), int(flags, 1), int(stream, 4), body]);
}

const settingsFrame = frame(4, 0, 0, Buffer.alloc(0));

const http2: readonly ((random: Random) => Buffer)[] = [
  (random) => Buffer.concat([preface, noise(random)]),
  (random) => Buffer.concat([preface, settingsFrame, frame(1, 5, 1, noise(random, 60))]),
  (random) => Buffer.concat([preface, settingsFrame, frame(9, 4, 1, noise(random, 60))]),
  (random) => Buffer.concat([preface, settingsFrame, frame(1, 0x0d, 3, Buffer.concat([int(255, 1), noise(random, 20)]))]),
  (random) => Buffer.concat([preface, settingsFrame, frame(1, 4, 5, noise(random, 20), 0xff_ffff)]),
  (random) => Buffer.concat([preface, frame(0, 1, 7, noise(random))]),
  () => Buffer.concat([preface, settingsFrame, ...Array.from({ length: 60 }, (_, index) => frame(3, 0, 2 * index + 1, int(8, 4)))]),
  (random) =>
    Buffer.concat([
      preface,
      ...Array.from({ length: 40 }, () =>
        frame(between(random, 0, 256), between(random, 0, 256), between(random, 0, 9), noise(random, 30)),
      ),
    ]),
  () => preface.subarray(0, 13),
  // A dynamic table size above the limit, then an index that does not exist.
  () => Buffer.concat([preface, settingsFrame, frame(1, 5, 1, Buffer.from([0x3f, 0xff, 0xff, 0x03, 0xff, 0xff, 0x7f]))]),
];

const redis: readonly ((random: Random) => Buffer)[] = [
  () => text("*3\r\n$-5\r\nGET\r\n"),
  () => text("*1000000\r\n$3\r\nGET\r\n"),
  () => text("*2\r\n$99999999999\r\nGET\r\n"),
  (random) => Buffer.concat([text("*2\r\n$3\r\nGET\r\n$10\r\n"), noise(random)]),
  () => text("*-7\r\n*0\r\n*\r\n$\r\n"),
  () => text("*1\r\n*1\r\n*1\r\n$4\r\nPING\r\n"),
  (random) => Buffer.concat([text("*2\r\n$4\r\nINCR\r\n$1\r\nx\r\n"), noise(random)]),
  () => text("*3\r\n$3\r\nSET\r\n$1\r\nx"),
  (random) => Buffer.concat([text("*1\r\n$400\r\n"), text("V".repeat(400)), text("\r\n"), noise(random)]),
  () => text("+OK\r\n-ERR no\r\n:1\r\n"),
];

const startup = (length: number): Buffer =>
  Buffer.concat([int(length, 4), int(0x30000, 4), text("user\0postgres\0database\0postgres\0\0")]);
const goodStartup = startup(42);

const postgres: readonly ((random: Random) => Buffer)[] = [
  () => startup(7),
  () => startup(0x7fff_ffff),
  (random) => Buffer.concat([goodStartup, noise(random)]),
  () => Buffer.concat([goodStartup, text("Q"), int(3, 4)]),
  () => Buffer.concat([goodStartup, text("Q"), int(0x7fff_ffff, 4), text("select 'violated'")]),
  (random) => Buffer.concat([goodStartup, text("P"), int(40, 4), noise(random, 30)]),
  () => Buffer.concat([goodStartup, text("B"), int(5, 4), text("\0")]),
  (random) => Buffer.concat([goodStartup, text("Q"), int(14, 4), text("select 1;\0"), noise(random)]),
  () => Buffer.concat([int(8, 4), int(80_877_103, 4), text("Q")]),
  () => Buffer.concat([goodStartup, text("Z"), int(5, 4), text("I"), text("E"), int(8, 4), text("C000")]),
];

const mysql: readonly ((random: Random) => Buffer)[] = [
  (random) => Buffer.concat([Buffer.from([0xff, 0xff, 0xff, 0]), noise(random)]),
  (random) => Buffer.concat([Buffer.from([5, 0, 0, 0, 3]), text("select 'violated'"), noise(random)]),
  () => Buffer.from([0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 2]),
  () => Buffer.concat([Buffer.from([74, 0, 0, 0, 10]), text("8.0.violated\0"), Buffer.alloc(30, 0xff)]),
  (random) => Buffer.concat([Buffer.from([1, 0, 0, 0, 0x17]), noise(random, 30), Buffer.from([1, 0, 0, 0, 0x16])]),
];

const tls: readonly ((random: Random) => Buffer)[] = [
  (random) => Buffer.concat([Buffer.from([0x16, 3, 1, 0xff, 0xff]), noise(random)]),
  (random) => Buffer.concat([Buffer.from([0x16, 3, 3, 0, 60, 1, 0, 0, 56, 3, 3]), noise(random, 54)]),
  (random) => Buffer.concat([Buffer.from([0x17, 3, 3, 0, 30]), seededBytes(random, 30)]),
  () => Buffer.from([0x15, 3, 3, 0, 2, 2, 40]),
  () => Buffer.from([0x16, 3, 1, 0]),
  // A name that is longer than the extension that holds it.
  (random) =>
    Buffer.concat([
      Buffer.from([0x16, 3, 1, 0, 70, 1, 0, 0, 66, 3, 3]),
      seededBytes(random, 32),
      Buffer.from([0, 0, 2, 0x13, 1, 1, 0, 0, 23, 0, 0, 0, 19, 0xff, 0xff, 0, 0xff, 0xff]),
      text("violated.test.tld"),
    ]),
];

const makersOf: Readonly<Record<ViolatedProtocol, readonly ((random: Random) => Buffer)[]>> = { http, http2, redis, postgres, mysql, tls };
export const violatedProtocols = Object.keys(makersOf) as ViolatedProtocol[];
