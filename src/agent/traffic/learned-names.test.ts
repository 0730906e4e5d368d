import { describe, expect, it } from "vitest";
import type { TrafficName } from "../../traffic/index.ts";
import { hostNameOf, LearnedNames } from "./learned-names.ts";

const nameOf = (name: string, requests: number, more: Partial<TrafficName> = {}): TrafficName => ({
  pid: 5,
  port: 80,
  source: "http_host",
  name,
  requests,
  ...more,
});
const both = ["http_host", "grpc_service"] as const;

function learn(...windows: TrafficName[][]): LearnedNames {
  const names = new LearnedNames({ hostname: "vm-1" });
  for (const window of windows) names.add(window, (pid) => (pid === 99 ? { pid, startTicks: 990 } : undefined));
  return names;
}
/** At a port whose process no scan has seen. */
const at = (names: LearnedNames, port = 80) => names.nameAtPort(port, both);

describe("LearnedNames", () => {
  it("learns the host of most requests, once there are enough", () => {
    expect(at(learn([nameOf("Shop.Example.com:8080", 10)]))).toBeUndefined();
    expect(at(learn([nameOf("Shop.Example.com:8080", 10)], [nameOf("shop.example.com", 10)]))).toBe("shop.example.com");
    expect(at(learn([nameOf("a.example", 50), nameOf("b.example", 50)]))).toBeUndefined();
  });

  it("keeps a name until another one is requested much more often", () => {
    const names = learn([nameOf("old", 100)], [nameOf("new", 250)]);
    expect(at(names)).toBe("old");
    names.add([nameOf("new", 100)], () => undefined);
    expect(at(names)).toBe("new");
  });

  it("ignores addresses, this machine's own name and made-up hosts", () => {
    const scanner = Array.from({ length: 500 }, (_, index) => nameOf(`x${index}.example`, 1));
    expect(
      at(learn([nameOf("10.0.0.1:80", 100), nameOf("localhost", 100), nameOf("vm-1", 100), nameOf("vm-1.lan", 100)], scanner)),
    ).toBeUndefined();
    expect(at(learn([nameOf("shop", 100)], scanner))).toBe("shop");
  });

  it("does not learn a name from few requests when most have an address", () => {
    expect(at(learn([nameOf("127.0.0.1", 3_000), nameOf("x", 50)]))).toBeUndefined();
    expect(at(learn([nameOf("10.0.0.1", 30), nameOf("shop", 60)]))).toBe("shop");
  });

  it("names no port by the requests to a known process, and separates ports and sources", () => {
    const names = learn([
      nameOf("shop", 100),
      nameOf("acme.Cart", 100, { port: 90, source: "grpc_service" }),
      nameOf("known.example", 100, { pid: 99, port: 70 }),
    ]);
    expect([at(names, 80), at(names, 90), at(names, 70)]).toEqual(["shop", "acme.Cart", undefined]);
    expect(names.nameAtPort(80, ["grpc_service"])).toBeUndefined();
  });

  it("collects aliases of a process from all its ports and sources, most requested first, at most 16", () => {
    const known = { pid: 99 };
    const names = learn([
      nameOf("shop.example", 30, known),
      nameOf("acme.Cart", 100, { ...known, port: 90, source: "grpc_service" }),
      nameOf("tls.example", 40, { ...known, port: 443, source: "tls_sni" }),
      nameOf("rare.example", 19, known),
      nameOf("10.0.0.1", 500, known),
    ]);
    expect(names.aliases().get("99 990")).toEqual(["acme.Cart", "tls.example", "shop.example"]);
    expect(names.aliases().get("99 991")).toBeUndefined();
    const many = learn(Array.from({ length: 30 }, (_, index) => nameOf(`x${index}.example`, 20 + index, known)));
    expect(many.aliases().get("99 990")).toHaveLength(16);
  });

  it("evicts the least recently seen port", () => {
    const names = new LearnedNames({ hostname: "vm-1", maxProcessPorts: 2 });
    for (const port of [80, 81, 82]) names.add([nameOf("shop", 100, { port })], () => undefined);
    expect([at(names, 80), at(names, 82)]).toEqual([undefined, "shop"]);
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
