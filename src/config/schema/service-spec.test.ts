import { describe, expect, it } from "vitest";
import { checkServiceSpec, parseServiceSpec } from "./service-spec.ts";

describe("parseServiceSpec()", () => {
  it.each([
    ["postgres:5432", { name: "postgres", port: 5432 }],
    ["api:8080:/health", { name: "api", port: 8080, health: "/health" }],
    ["api:8080:/health:http", { name: "api", port: 8080, health: "/health", type: "http" }],
    ["api:8080::grpc", { name: "api", port: 8080, type: "grpc" }],
    ["api:8080::", { name: "api", port: 8080 }],
    ["A_b.c-1:1:/a?b=%3A&c=d:https", { name: "A_b.c-1", port: 1, health: "/a?b=%3A&c=d", type: "https" }],
    ["dns:65535::udp", { name: "dns", port: 65535, type: "udp" }],
  ])("reads %j", (text, spec) => {
    expect(parseServiceSpec(text)).toEqual(spec);
  });

  it.each([
    ["postgres", 'Cannot connect service "postgres": it has no port; write name:port[:health][:type], such as api:8080:/health:http'],
    ["", "it has no port"],
    [":5432", "its name is empty"],
    ["api:", '"" is not a port'],
    ["api:http", '"http" is not a port'],
    ["api:-1", '"-1" is not a port'],
    ["api:80.5", '"80.5" is not a port'],
    ["api:0", "port 0 is not between 1 and 65535"],
    ["api:65536", "port 65536 is not between 1 and 65535"],
    ["api:99999999999999999999", "is not between 1 and 65535"],
    ["my service:80", '"my service" is not a name'],
    ["-api:80", '"-api" is not a name'],
    ["api.:80", '"api." is not a name'],
    ["a\u001b[2J:80", "is not a name"],
    [`${"a".repeat(64)}:80`, "is not a name; a name has 1 to 63 letters"],
    ["api:80:health", '"health" is not a health path; it starts with /'],
    ["api:80:/a b", "is not a health path"],
    ["api:80:/a\r\nx", "is not a health path"],
    ["api:80:/a#b", "is not a health path"],
    ["api:80:/a:Http", '"Http" is not a type'],
    ["api:80:/a:b:c", "it has too many parts"],
    ["api:80:/a:udp", "a health path needs HTTP"],
  ])("rejects %j", (text, message) => {
    expect(() => parseServiceSpec(text)).toThrow(expect.objectContaining({ code: "usage", message: expect.stringContaining(message) }));
  });
});

describe("checkServiceSpec()", () => {
  it("accepts what the CLI sends and drops unknown fields", () => {
    expect(checkServiceSpec({ name: "api", port: 80, health: "/h", type: "http", extra: 1 })).toEqual({
      name: "api",
      port: 80,
      health: "/h",
      type: "http",
    });
  });

  it.each([
    null,
    undefined,
    5,
    [],
    "api:80",
    {},
    { name: 1, port: 1 },
    { name: "a", port: "1" },
    { name: "a", port: 1, health: 1 },
    { name: "../x", port: 1 },
  ])("rejects %j", (value) => {
    expect(() => checkServiceSpec(value)).toThrow(expect.objectContaining({ code: "invalid" }));
  });
});
