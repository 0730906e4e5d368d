import { describe, expect, it } from "vitest";
import { cpuMsOf } from "../base/cpu-time.fixture.ts";
import { redactLogText } from "./redact-log.ts";

describe("redactLogText()", () => {
  it.each([
    ["login with password=hunter2 ok", "login with password=*** ok"],
    ['{"user":"ada","password":"two words","n":1}', '{"user":"ada","password":"***","n":1}'],
    ['body: {\\"api_key\\":\\"abc def\\"}', 'body: {\\"api_key\\":\\"***\\"}'],
    ["Authorization: Bearer abcdefghijkl", "Authorization: Bearer ***"],
    ["connect postgres://app:s3cret@db:5432/x", "connect postgres://***@db:5432/x"],
    ["key AKIAIOSFODNN7EXAMPLE used", "key *** used"],
    ["token=abc123def456", "token=***"],
    ["DB_PASSWORD='a b c' set", "DB_PASSWORD=*** set"],
  ])("masks the secret in %j", (text, expected) => {
    expect(redactLogText(text)).toBe(expected);
  });

  it("keeps JSON valid", () => {
    const text =
      '{"header":"cookie: a=b; c=d","n":9007199254740993,"list":["password=x1y2z3 end"],"token":"abc123def456","ok":"yes \\"quoted\\""}';
    expect(redactLogText(text)).toBe(
      '{"header":"cookie: ***","n":9007199254740993,"list":["password=*** end"],"token":"***","ok":"yes \\"quoted\\""}',
    );
    expect(() => JSON.parse(redactLogText(text))).not.toThrow();
  });

  it.each([
    "trace 4bf92f3577b34da6a3ce929d0e0e4736 of request 4bf92f35-77b3-4da6-a3ce-929d0e0e4736",
    "cache miss for key: users and token: }",
    "GET /users/42 200 in 12ms",
    '{"message":"hello","keyboard":"de"}',
    "primary_key=42 token_ttl=300",
  ])("keeps %j unchanged", (text) => {
    expect(redactLogText(text)).toBe(text);
  });

  it("stays fast for texts of any form", () => {
    const cpuMs = cpuMsOf(() => {
      for (const text of ['"'.repeat(60_000), 'a":"'.repeat(15_000), "pass=".repeat(12_000), "key: ".repeat(12_000), "x".repeat(200_000)]) {
        redactLogText(text);
      }
      for (const part of ["eyJ-", "jdbc:oracle:a:", "a://b:", "sk-", "cookie ", "bearer ", '\\"a\\":\\"']) {
        redactLogText(part.repeat(Math.ceil(64_000 / part.length)));
      }
    });
    expect(cpuMs).toBeLessThan(3_000);
  });
});
