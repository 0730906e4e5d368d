import { expect, test } from "vitest";
import { isLoopbackAddress, parseEndpoint } from "./endpoint.ts";

test.each([
  ["127.0.0.1:9000", "127.0.0.1", 9000],
  ["colony.example:443", "colony.example", 443],
  ["[::1]:9000", "::1", 9000],
])("parseEndpoint(%j) returns host and port", (text, host, port) => {
  expect(parseEndpoint(text)).toEqual({ host, port });
});

test.each(["", "9000", "host", "host:", "host:0", "host:65536", "::1:9000", "http://x:1", "a b:1", "u@h:1", "h:1/x"])(
  "parseEndpoint() refuses %j",
  (text) => {
    expect(() => parseEndpoint(text)).toThrow(/write host:port/);
  },
);

test.each([
  ["127.0.0.1", true],
  ["127.9.8.7", true],
  ["::1", true],
  ["::ffff:127.0.0.1", true],
  ["10.0.0.1", false],
  ["::ffff:10.0.0.1", false],
  ["", false],
  ["127.0.0.1.example", false],
  ["::2", false],
])("isLoopbackAddress(%j) is %j", (address, expected) => {
  expect(isLoopbackAddress(address)).toBe(expected);
});
