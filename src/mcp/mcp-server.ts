import { ProtocolError, ProtocolErrorCode, Server, type Tool as WireTool } from "@modelcontextprotocol/server";
import { commonInstructions } from "./brief-schema.ts";
import { failedAnswer, toolAnswer } from "./tool-answer.ts";

/** A tool as MCP shows it. */
export interface McpTool {
  name: string;
  title: string;
  description: string;
  changes: boolean;
  inputSchema: Record<string, unknown>;
}

export interface McpServerOptions {
  version: string;
  /** Asked for each list and call, so that tools may come and go. */
  listTools: () => Promise<readonly McpTool[]>;
  /** Throws a CoralError when the call fails. */
  callTool: (name: string, input: Record<string, unknown>, signal: AbortSignal) => Promise<Record<string, unknown>>;
}

const instructions =
  "Coral observes the hosts and services of one application. Start with coral_query_summary; dig with requests, traces, logs, host and SQL. " +
  `Each result has \`completeness\`: what it could not see. Say so when you conclude from an incomplete one. In inputs ${commonInstructions}`;

/** A server for one connection or one request, of any protocol version that the library speaks. */
export function createMcpServer({ version, listTools, callTool }: McpServerOptions): Server {
  const server = new Server({ name: "coral", title: "Coral", version }, { capabilities: { tools: {} }, instructions });
  server.setRequestHandler("tools/list", async () => ({ tools: (await listTools()).map(wireTool) }));
  server.setRequestHandler("tools/call", async (request, context) => {
    const { name, arguments: input = {} } = request.params;
    const tools = await listTools();
    if (!tools.some((tool) => tool.name === name)) {
      const names = tools.map((tool) => tool.name).join(", ");
      throw new ProtocolError(ProtocolErrorCode.InvalidParams, `Cannot call tool "${name}": unknown tool; available: ${names}`);
    }
    try {
      return toolAnswer(await callTool(name, input, context.mcpReq.signal));
    } catch (error) {
      return failedAnswer(error);
    }
  });
  return server;
}

/** Output schemas are left out: they would take four times the room of all the rest in a model's context. */
function wireTool({ name, title, description, changes, inputSchema }: McpTool): WireTool {
  return {
    name,
    title,
    description,
    inputSchema: inputSchema as WireTool["inputSchema"],
    annotations: { readOnlyHint: !changes, openWorldHint: false },
  };
}
