import { expect, it } from "vitest";
import { agentNames } from "./agent-names.ts";

it("agentNames() uses ids only where names are not enough", () => {
  const nameOf = agentNames([
    { agentId: "vm-1", hostname: "vm" },
    { agentId: "vm-2", hostname: "vm" },
    { agentId: "vm-2", hostname: "vm" },
    { agentId: "web-5f", hostname: "web" },
    { agentId: "web-5f", hostname: "web" },
    { agentId: "gone-1", hostname: null },
    { agentId: null, hostname: null },
  ]);
  expect(["vm-1", "vm-2", "web-5f", "gone-1", "other"].map(nameOf)).toEqual(["vm-1", "vm-2", "web", "gone-1", "other"]);
});
