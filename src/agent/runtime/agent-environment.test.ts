import { expect, it } from "vitest";
import { agentEnvironment } from "./agent-environment.ts";

it.each([
  [{}, "shop-production-4759df", undefined, "production"],
  [{}, "shop-production-4759df", "production", "production"],
  [{}, "my-shop-us-east-4759df", "us-east", "us-east"],
  [{}, "my-shop-us-east-4759df", undefined, "east"],
  // The colony cannot switch the agent to another environment.
  [{}, "shop-production-4759df", "staging", "production"],
  [{}, "shop-production-4759df", "", "production"],
  [{}, undefined, undefined, ""],
  [{}, "somewhere", "staging", ""],
  [{ env: "staging" }, "shop-production-4759df", "production", "staging"],
  [{ environment: "dev" }, undefined, undefined, "dev"],
])("agentEnvironment() of labels %j, colony %s that reports %s is %s", (labels, colonyId, reported, expected) => {
  expect(agentEnvironment({ labels, colonyId, reported })).toBe(expected);
});
