import { createMcpHandler } from "@modelcontextprotocol/server";
import type { Tool } from "../tools/index.ts";
import { createMcpServer } from "./mcp-server.ts";
import { mcpTools } from "./mcp-tools.ts";

export interface McpRequestOptions<Backend> {
  /** All that may be called here; the caller of this function has checked the permission. */
  tools: readonly Tool<Backend>[];
  version: string;
  call: (tool: Tool<Backend>, input: unknown, signal: AbortSignal) => Promise<Record<string, unknown>>;
}

/** A question to a tool is short. */
const bodyMaxBytes = 1024 ** 2;

/**
 * Streamable HTTP for `/mcp`, without sessions: each POST stands alone, also for clients of the session-based protocol versions.
 * GET and DELETE, which belong to sessions, are answered 405.
 */
export async function handleMcpRequest<Backend>(request: Request, options: McpRequestOptions<Backend>): Promise<Response> {
  const { tools, version, call } = options;
  const offered = mcpTools(tools, "admin");
  const handler = createMcpHandler(
    () =>
      createMcpServer({
        version,
        listTools: () => Promise.resolve(offered),
        callTool: (name, input, signal) => {
          const tool = tools.find((candidate) => candidate.name === name);
          return tool ? call(tool, input, signal) : Promise.reject(new Error(`there is no tool "${name}"`));
        },
      }),
    { maxRequestBodySize: bodyMaxBytes },
  );
  return await handler.fetch(request);
}
