import { describe, expect, it } from "vitest";
import { colonyTools } from "../tools/index.ts";
import { mcpTools } from "./mcp-tools.ts";
import { callToolName, listedTools, searchToolName, searchTools } from "./tool-catalog.ts";

/** A token is about four characters of JSON. */
const tokensOf = (value: unknown): number => JSON.stringify(value).length / 4;

describe("the tools of a colony over MCP", () => {
  it.each(["read", "exec", "admin"] as const)("are listed in at most 3,000 tokens, to fit a model's context: %s", (permission) => {
    const listed = listedTools(mcpTools(colonyTools, permission));
    expect(tokensOf(listed)).toBeLessThan(3_000);
    expect(listed.map(({ name }) => name)).toEqual(expect.arrayContaining(["coral_query_summary", searchToolName, callToolName]));
  });

  it("exclude tools for administrators, whatever the caller's permission", () => {
    const names = mcpTools(colonyTools, "admin").map(({ name }) => name);
    expect(names).toContain("coral_agent_exec");
    for (const name of ["coral_decide_approval", "coral_list_audit", "coral_get_audit", "coral_create_token", "coral_revoke_agent"]) {
      expect(colonyTools.map((tool) => tool.name)).toContain(name);
      expect(names).not.toContain(name);
    }
  });

  it.each([
    ["egress", "coral_get_egress"],
    ["external dependencies of a service", "coral_get_external_dependencies"],
    ["list the agents", "coral_list_agents"],
    ["tcp connections", "coral_query_connections"],
    ["what happened: events", "coral_list_events"],
  ])("are found by keywords: %s", (query, name) => {
    const { tools } = searchTools(mcpTools(colonyTools), query) as { tools: { name: string; inputSchema: unknown }[] };
    expect(tools[0]).toMatchObject({ name, inputSchema: { type: "object" } });
    expect(tools.length).toBeLessThanOrEqual(5);
  });

  it("are all listed when no keyword matches", () => {
    const { tools } = searchTools(mcpTools(colonyTools), "xyzzy") as { tools: unknown[] };
    expect(tools).toHaveLength(mcpTools(colonyTools).length);
    expect(tokensOf(tools)).toBeLessThan(1_000);
  });
});
