import { listTools, type Permission, type Tool } from "../tools/index.ts";
import { briefSchema } from "./brief-schema.ts";
import type { McpTool } from "./mcp-server.ts";

/** The tools that MCP offers: those that read, unless the caller has more permission. */
export function mcpTools<Backend>(tools: readonly Tool<Backend>[], permission: Permission = "read"): McpTool[] {
  return listTools(tools, permission).map(({ name, title, description, changes, inputSchema }) => ({
    name,
    title,
    description,
    changes,
    inputSchema: briefSchema(inputSchema),
  }));
}
