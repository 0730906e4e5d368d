import { describe, expect, it } from "vitest";
import { colonyTools } from "../tools/index.ts";
import { mcpTools } from "./mcp-tools.ts";

describe("mcpTools()", () => {
  it("lists the reading tools in at most 3,000 tokens, to fit a model's context", () => {
    // Titles are for people, annotations for programs; a token is about four characters of JSON.
    const listed = mcpTools(colonyTools).map(({ name, description, inputSchema }) => ({ name, description, inputSchema }));
    expect(JSON.stringify(listed).length / 4).toBeLessThan(3_000);
  });
});
