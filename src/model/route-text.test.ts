import { describe, expect, it } from "vitest";
import { beginsWithWord, routeText } from "./route-text.ts";

describe("beginsWithWord()", () => {
  it.each([
    ["select 1", "SELECT", true],
    ["SELECT(1)", "select", true],
    ["PING", "PING", true],
    ["CONFIG GET", "CONFIG", true],
    ["a.example", "A", false],
    ["api.example", "A", false],
    ["setup", "SET", false],
    ["/get", "GET", false],
    ["text", "", false],
  ])("%s, %s: %s", (text, word, expected) => {
    expect(beginsWithWord(text, word)).toBe(expected);
  });
});

describe("routeText()", () => {
  it.each([
    ["GET", "/users/{id}", "GET /users/{id}"],
    ["SELECT", "SELECT * FROM t", "SELECT * FROM t"],
    ["", "/x", "/x"],
    ["PING", "", "PING"],
  ])("%s, %s: %s", (method, route, expected) => {
    expect(routeText(method, route)).toBe(expected);
  });
});
