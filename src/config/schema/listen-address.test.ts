import { expect, it } from "vitest";
import { formatListenAddress, listenOverride, parseListenAddress, withListenFlag } from "./listen-address.ts";

it.each([
  ["127.0.0.1:9000", "127.0.0.1", 9000],
  ["[::1]:0", "::1", 0],
  ["[::]:65535", "::", 65535],
  ["localhost:80", "localhost", 80],
  [":9000", "127.0.0.1", 9000],
  ["9000", "127.0.0.1", 9000],
  [" 0.0.0.0:1 ", "0.0.0.0", 1],
])("parseListenAddress(%j)", (text, host, port) => {
  expect(parseListenAddress(text)).toEqual({ host, port });
  expect(parseListenAddress(formatListenAddress({ host, port }))).toEqual({ host, port });
});

it.each(["", "host", "host:", "host:65536", "::1:9000", "a b:1", "host:1:2", "http://x:1", "host:-1"])(
  "parseListenAddress() rejects %j",
  (text) => {
    expect(() => parseListenAddress(text)).toThrow("Cannot read address");
  },
);

it("a flag with a port only keeps the configured host", () => {
  const configured = { host: "0.0.0.0", port: 9000 };
  expect(withListenFlag(configured, "3001")).toEqual({ host: "0.0.0.0", port: 3001 });
  expect(withListenFlag(configured, undefined)).toBe(configured);
  expect(withListenFlag(configured, "[::1]:5")).toBe(configured);
  expect([listenOverride("3001"), listenOverride("[::1]:5"), listenOverride(undefined)]).toEqual([undefined, "[::1]:5", undefined]);
  expect(() => withListenFlag(configured, "70000")).toThrow("0 to 65535");
});
