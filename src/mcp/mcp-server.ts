import { ProtocolError, ProtocolErrorCode, Server, type Tool as WireTool } from "@modelcontextprotocol/server";
import { commonInstructions } from "./brief-schema.ts";
import { failedAnswer, toolAnswer } from "./tool-answer.ts";
import { callToolName, listedTools, searchToolName, searchTools } from "./tool-catalog.ts";

/** A tool in MCP's terms. */
export interface McpTool {
  name: string;
  title: string;
  description: string;
  changes: boolean;
  inputSchema: Record<string, unknown>;
}

export interface McpServerOptions {
  version: string;
  /** The callable tools. Read for each list and call, so that tools may change. */
  listTools: () => Promise<readonly McpTool[]>;
  /** Throws a CoralError when the call fails. */
  callTool: (name: string, input: Record<string, unknown>, signal: AbortSignal) => Promise<Record<string, unknown>>;
}

const instructions =
  "Coral observes the hosts and services of one application. Start with coral_query_summary; drill down with requests, traces, logs, host and SQL. " +
  `Each result has \`completeness\`: the data it lacks. Mention it when you conclude from an incomplete result. ` +
  `A long result has \`nextCursor\`: repeat the call with it as \`cursor\` to get the next page. In inputs ${commonInstructions}`;

/** A server for one connection or one request, of any protocol version that the library speaks. */
export function createMcpServer({ version, listTools, callTool }: McpServerOptions): Server {
  const server = new Server({ name: "coral", title: "Coral", version }, { capabilities: { tools: {} }, instructions });
  server.setRequestHandler("tools/list", async () => ({ tools: listedTools(await listTools()).map(wireTool) }));
  server.setRequestHandler("tools/call", async (request, context) => {
    const tools = await listTools();
    const { name, input, cursor } = wantedCall(request.params.name, request.params.arguments ?? {});
    if (name === searchToolName) return toolAnswer(searchTools(tools, String(input["query"] ?? "")), { isRepeatable: false });
    const tool = tools.find((candidate) => candidate.name === name);
    if (!tool) {
      const names = tools.map((candidate) => candidate.name).join(", ");
      throw new ProtocolError(ProtocolErrorCode.InvalidParams, `Cannot call tool "${name}": unknown tool; available: ${names}`);
    }
    try {
      return toolAnswer(await callTool(name, input, context.mcpReq.signal), { cursor, isRepeatable: !tool.changes });
    } catch (error) {
      return failedAnswer(error);
    }
  });
  return server;
}

interface WantedCall {
  name: string;
  input: Record<string, unknown>;
  cursor?: string | undefined;
}

/** Resolves a call, directly or through coral_call_tool. No tool has its own input `cursor`. */
function wantedCall(name: string, { cursor, ...input }: Record<string, unknown>): WantedCall {
  const page = cursor === undefined || cursor === null || cursor === "" ? undefined : String(cursor);
  if (name !== callToolName) return { name, input, cursor: page };
  const inner = input["input"];
  const { cursor: innerCursor, ...rest } = (typeof inner === "object" && inner !== null ? inner : {}) as Record<string, unknown>;
  return { name: String(input["name"] ?? ""), input: rest, cursor: page ?? (innerCursor === undefined ? undefined : String(innerCursor)) };
}

/** Omits output schemas, which would take four times the size of everything else in a model's context. */
function wireTool({ name, title, description, changes, inputSchema }: McpTool): WireTool {
  return {
    name,
    title,
    description,
    inputSchema: inputSchema as WireTool["inputSchema"],
    annotations: { readOnlyHint: !changes, openWorldHint: false },
  };
}
