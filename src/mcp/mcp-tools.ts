import { listTools, type Permission, permits, type Tool, type ToolListEntry } from "../tools/index.ts";
import { briefSchema } from "./brief-schema.ts";
import type { McpTool } from "./mcp-server.ts";

/** Tools that MCP offers: read-only ones, unless the caller has more permission. */
export function mcpTools<Backend>(tools: readonly Tool<Backend>[], permission: Permission = "read"): McpTool[] {
  return briefTools(listTools(tools, permission).filter((tool) => isForModels(tool, true)));
}

/** Administrative tools are for people only: with them a model could approve its own command, read the audit, or create a token. */
export function isForModels({ permission }: Pick<ToolListEntry, "permission">, allowsChanges: boolean): boolean {
  return permission === "read" || (allowsChanges && !permits(permission, "admin"));
}

export function briefTools(tools: readonly ToolListEntry[]): McpTool[] {
  return tools.map(({ name, title, description, changes, inputSchema }) => ({
    name,
    title,
    description,
    changes,
    inputSchema: briefSchema(inputSchema),
  }));
}
