import { describe, expect, it } from "vitest";
import { colonyTools } from "../tools/index.ts";
import { mcpTools } from "./mcp-tools.ts";

describe("mcpTools()", () => {
  it("fits a model's context: what it is told of the tools that read takes at most 3,000 tokens", () => {
    // Titles are for people, annotations for programs; a token is about four characters of JSON.
    const told = mcpTools(colonyTools).map(({ name, description, inputSchema }) => ({ name, description, inputSchema }));
    expect(JSON.stringify(told).length / 4).toBeLessThan(3_000);
  });
});
