import { expect, test } from "vitest";
import { formatSpiffeId, parseSpiffeId, type SpiffeId, uriNamesOf } from "./spiffe-id.ts";

test.each<SpiffeId>([
  { kind: "colony", colonyId: "shop-prod-0a1b2c" },
  { kind: "agent", colonyId: "shop-prod-0a1b2c", agentId: "web-1.example" },
])("parseSpiffeId() reads what formatSpiffeId() wrote: %j", (id) => {
  expect(parseSpiffeId(formatSpiffeId(id))).toEqual(id);
});

test.each([
  "",
  "spiffe://",
  "spiffe://x",
  "spiffe://x/",
  "spiffe:///colony",
  "spiffe://x/colony/y",
  "spiffe://x/agent",
  "spiffe://x/agent/",
  "spiffe://x/agent/a/b",
  "spiffe://x/agent/a b",
  "spiffe://x/agent/..",
  'spiffe://x/agent/a"',
  "https://x/colony",
  " spiffe://x/colony",
  "spiffe://x/colony\n",
])("parseSpiffeId() refuses %j", (uri) => {
  expect(parseSpiffeId(uri)).toBeUndefined();
});

test.each([
  ["", []],
  ["URI:spiffe://x/colony", ["spiffe://x/colony"]],
  ["DNS:localhost, URI:spiffe://x/colony, IP Address:127.0.0.1", ["spiffe://x/colony"]],
  ["URI:a, URI:b", ["a", "b"]],
  // A name with a separator is quoted; what is inside the quotes is not a name.
  ['DNS:"x, URI:spiffe://x/agent/victim, y"', []],
  ['DNS:"x\\", URI:spiffe://x/agent/victim", URI:real', ["real"]],
  ['URI:"a, b"', []],
])("uriNamesOf(%j) gives %j", (text, expected) => {
  expect(uriNamesOf(text)).toEqual(expected);
});
