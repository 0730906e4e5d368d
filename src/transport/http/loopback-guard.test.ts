import type { IncomingMessage } from "node:http";
import { expect, test } from "vitest";
import { loopbackProblem } from "./loopback-guard.ts";

function problem(headers: { host?: string; origin?: string }): string | undefined {
  return loopbackProblem({ headers } as IncomingMessage);
}

test.each(["localhost", "localhost:9000", "127.0.0.1:9000", "127.1.2.3", "[::1]:9000", "LOCALHOST:1"])(
  "loopbackProblem() accepts Host %j",
  (host) => {
    expect(problem({ host })).toBeUndefined();
  },
);

test.each([
  "",
  "evil.example",
  "evil.example:9000",
  "localhost.evil.example",
  "127.0.0.1.evil.example",
  "127.0.0.1@evil.example",
  "10.0.0.1:9000",
  "a b",
  "localhost/x",
  "[::2]",
])("loopbackProblem() refuses Host %j", (host) => {
  expect(problem({ host })).toContain("Host header");
});

test("loopbackProblem() refuses a request without Host", () => {
  expect(problem({})).toContain("Host header");
});

test.each([
  ["http://localhost:3000", true],
  ["http://127.0.0.1", true],
  ["https://[::1]:8443", true],
  ["https://evil.example", false],
  ["null", false],
  ["", false],
  ["file://", false],
  ["http://localhost@evil.example", false],
])("loopbackProblem() accepts Origin %j: %j", (origin, passes) => {
  expect(problem({ host: "localhost:9000", origin }) === undefined).toBe(passes);
});
