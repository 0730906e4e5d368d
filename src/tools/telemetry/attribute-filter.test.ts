import { expect, it } from "vitest";
import { parseAttributeFilter } from "./attribute-filter.ts";

it.each([
  ["http.status_code=500", ["http.status_code", "=", "500"]],
  ["http.status_code >= 500", ["http.status_code", ">=", "500"]],
  ["a!=b", ["a", "!=", "b"]],
  ["a<=-1.5", ["a", "<=", "-1.5"]],
  ["url.full~/cart?x=1", ["url.full", "~", "/cart?x=1"]],
  ["name=~^GET", ["name", "~", "^GET"]],
  ["name!~^GET", ["name", "!~", "^GET"]],
  ["a==1", ["a", "=", "1"]],
  ['user="Ann Lee"', ["user", "=", "Ann Lee"]],
  ["user='x'", ["user", "=", "x"]],
  ["empty=", ["empty", "=", ""]],
])("parseAttributeFilter(%j)", (text, [name, operator, value]) => {
  expect(parseAttributeFilter(text)).toEqual({ name, operator, value });
});

it.each(["", "http.status_code", "=500", "a b=1"])("parseAttributeFilter() rejects %j", (text) => {
  expect(() => parseAttributeFilter(text)).toThrow("write an attribute");
});
