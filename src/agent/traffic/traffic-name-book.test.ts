import { describe, expect, it } from "vitest";
import type { TrafficName } from "../../traffic/index.ts";
import { hostNameOf, TrafficNameBook } from "./traffic-name-book.ts";

const nameOf = (name: string, requests: number, more: Partial<TrafficName> = {}): TrafficName => ({
  pid: 5,
  port: 80,
  source: "http_host",
  name,
  requests,
  ...more,
});
const both = ["http_host", "grpc_service"] as const;

function bookOf(...windows: TrafficName[][]): TrafficNameBook {
  const book = new TrafficNameBook({ hostname: "vm-1" });
  for (const names of windows) book.add(names, (pid) => (pid === 99 ? undefined : { pid, startTicks: pid * 10 }));
  return book;
}
const at = (book: TrafficNameBook, port: number | null = 80, startTicks = 50) => book.nameOf({ pid: 5, startTicks, port }, both);

describe("TrafficNameBook", () => {
  it("takes the host that most requests ask for, once there are enough of them", () => {
    expect(at(bookOf([nameOf("Shop.Example.com:8080", 10)]))).toBeUndefined();
    expect(at(bookOf([nameOf("Shop.Example.com:8080", 10)], [nameOf("shop.example.com", 10)]))).toBe("shop.example.com");
    expect(at(bookOf([nameOf("a.example", 50), nameOf("b.example", 50)]))).toBeUndefined();
  });

  it("keeps a name until another one is asked for much more often", () => {
    const book = bookOf([nameOf("old", 100)], [nameOf("new", 250)]);
    expect(at(book)).toBe("old");
    book.add([nameOf("new", 100)], () => ({ pid: 5, startTicks: 50 }));
    expect(at(book)).toBe("new");
  });

  it("is not misled by addresses, this machine's own name and made-up hosts", () => {
    const scanner = Array.from({ length: 500 }, (_, index) => nameOf(`x${index}.example`, 1));
    expect(
      at(bookOf([nameOf("10.0.0.1:80", 100), nameOf("localhost", 100), nameOf("vm-1", 100), nameOf("vm-1.lan", 100)], scanner)),
    ).toBeUndefined();
    expect(at(bookOf([nameOf("shop", 100)], scanner))).toBe("shop");
  });

  it("does not call a service what few of its callers say, when the others name an address", () => {
    expect(at(bookOf([nameOf("127.0.0.1", 3_000), nameOf("x", 50)]))).toBeUndefined();
    expect(at(bookOf([nameOf("10.0.0.1", 30), nameOf("shop", 60)]))).toBe("shop");
  });

  it("knows processes by their start, ports apart, and the sources that are wanted", () => {
    const book = bookOf([
      nameOf("shop", 100),
      nameOf("acme.Cart", 100, { port: 90, source: "grpc_service" }),
      nameOf("x", 100, { pid: 99 }),
    ]);
    expect([at(book, 80), at(book, 90), at(book, 70), at(book, 80, 51)]).toEqual(["shop", "acme.Cart", undefined, undefined]);
    expect(at(book, null)).toBeUndefined();
    expect(at(bookOf([nameOf("shop", 100)]), null)).toBe("shop");
    expect(book.nameOf({ pid: 5, startTicks: 50, port: 80 }, ["grpc_service"])).toBeUndefined();
  });

  it("forgets the least recent place when there are too many", () => {
    const book = new TrafficNameBook({ hostname: "vm-1", maxPlaces: 2 });
    for (const port of [80, 81, 82]) book.add([nameOf("shop", 100, { port })], () => ({ pid: 5, startTicks: 50 }));
    expect([at(book, 80), at(book, 82)]).toEqual([undefined, "shop"]);
  });
});

it.for([
  ["Api.Example.com.", "api.example.com"],
  ["users-api:8080", "users-api"],
  ["my_service", "my_service"],
  ["127.0.0.1:80", null],
  ["[::1]:80", null],
  ["::1", null],
  ["localhost:3000", null],
  ["app.localhost", null],
  ["2130706433", null],
  ["0x7f.1", null],
  ["", null],
  ["a b", null],
  ["<script>", null],
  [`${"a".repeat(64)}.example`, null],
  ["-a.example", null],
] as const)("hostNameOf(%j)", ([host, name]) => {
  expect(hostNameOf(host)).toBe(name);
});
