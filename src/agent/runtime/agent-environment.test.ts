import { expect, it } from "vitest";
import { agentEnvironment } from "./agent-environment.ts";

it.each([
  [{}, "shop-production-4759df", undefined, "production"],
  [{}, "shop-production-4759df", "production", "production"],
  [{}, "my-shop-us-east-4759df", "us-east", "us-east"],
  [{}, "my-shop-us-east-4759df", undefined, "east"],
  // A colony's word does not make it another environment.
  [{}, "shop-production-4759df", "staging", "production"],
  [{}, "shop-production-4759df", "", "production"],
  [{}, undefined, undefined, ""],
  [{}, "somewhere", "staging", ""],
  [{ env: "staging" }, "shop-production-4759df", "production", "staging"],
  [{ environment: "dev" }, undefined, undefined, "dev"],
])("agentEnvironment() of labels %j, colony %s that says %s is %s", (labels, colonyId, told, expected) => {
  expect(agentEnvironment({ labels, colonyId, told })).toBe(expected);
});
