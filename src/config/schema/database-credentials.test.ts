import { describe, expect, it } from "vitest";
import { checkCredentials, engineOf, parseCredentials } from "./database-credentials.ts";

const shop = { user: "coral", password: "a:b#c", database: "shop", socket: "" };

describe("parseCredentials()", () => {
  it.each([
    ["names and values", "# read-only\nuser: coral\npassword: a:b#c\ndatabase: shop\n"],
    ["quotes", "user: \"coral\"\npassword: 'a:b#c'\r\ndatabase: shop"],
    ["variables", 'export PGUSER=coral\nPGPASSWORD="a:b#c"\nPGDATABASE=shop'],
    ["variables of containers", "POSTGRES_USER=coral\nPOSTGRES_PASSWORD=a:b#c\nPOSTGRES_DB=shop"],
    ["a line of .pgpass", String.raw`localhost:5432:shop:coral:a\:b#c`],
  ])("reads %s", (_, text) => {
    expect(parseCredentials(text)).toEqual(shop);
  });

  it("reads a database of *, and a password alone for Redis", () => {
    expect(parseCredentials("*:*:*:coral:x")).toMatchObject({ user: "coral", password: "x", database: "" });
    expect(checkCredentials({ ...parseCredentials("password: x"), engine: "redis" })).toMatchObject({
      engine: "redis",
      user: "",
      password: "x",
    });
  });

  it.each([
    ["an empty file", "\n# nothing\n", /empty/],
    ["an unknown field", "user: coral\nhunter2-is-here", /line 2 is none of/],
    ["no user", "password: hunter2", /no user/],
    ["a relative socket", "user: a\npassword: hunter2\nsocket: run/pg", /absolute/],
    ["a file without credentials", "hunter2".repeat(5_000), /too long/],
  ])("rejects %s without repeating its text", (_, text, reason) => {
    let message = "";
    try {
      checkCredentials({ ...parseCredentials(text), engine: "postgres" });
    } catch (error) {
      message = String(error);
    }
    expect(message).toMatch(reason);
    expect(message).not.toContain("hunter2");
  });

  it("rejects a stored engine that is unknown", () => {
    expect(() => checkCredentials({ ...shop, engine: "oracle" })).toThrow(/engine/);
  });
});

describe("engineOf()", () => {
  it("uses words before the port", () => {
    expect(engineOf(["mariadb", null], 5432)).toBe("mysql");
    expect(engineOf([undefined, "pg"], 5432)).toBe("postgres");
    expect(engineOf(["db"], 7000)).toBeUndefined();
  });
});
