import { createMcpHandler } from "@modelcontextprotocol/server";
import type { Tool } from "../tools/index.ts";
import { createMcpServer } from "./mcp-server.ts";
import { mcpTools } from "./mcp-tools.ts";

export interface McpRequestOptions<Backend> {
  /** The callable tools; the caller has already checked permissions. */
  tools: readonly Tool<Backend>[];
  version: string;
  call: (tool: Tool<Backend>, input: unknown, signal: AbortSignal) => Promise<Record<string, unknown>>;
}

/** Maximum request body; inputs of tools are short. */
const bodyMaxBytes = 1024 ** 2;

/**
 * Streamable HTTP for `/mcp`, stateless: every POST is independent, even for clients of session-based protocol versions.
 * GET and DELETE, which need sessions, return 405.
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
          return tool ? call(tool, input, signal) : Promise.reject(new Error(`unknown tool "${name}"`));
        },
      }),
    { maxRequestBodySize: bodyMaxBytes },
  );
  return await handler.fetch(request);
}
