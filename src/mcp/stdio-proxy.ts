import type { Readable, Writable } from "node:stream";
import { StdioServerTransport, serveStdio } from "@modelcontextprotocol/server/stdio";
import { CoralError } from "../base/errors.ts";
import { colonyTools, type ToolListEntry } from "../tools/index.ts";
import { createMcpServer, type McpTool } from "./mcp-server.ts";
import { briefTools, isForModels, mcpTools } from "./mcp-tools.ts";

export interface McpProxyOptions {
  version: string;
  /** `GET /v1/tools` of the daemon. Throws `unavailable` while it is not running. */
  listTools: (signal: AbortSignal) => Promise<readonly ToolListEntry[]>;
  /** `POST /v1/tools/<name>` of the daemon. */
  callTool: (name: string, input: Record<string, unknown>, signal: AbortSignal) => Promise<Record<string, unknown>>;
  stdin: Readable;
  /** Protocol messages only. */
  stdout: Writable;
  signal: AbortSignal;
  /** Also offer tools that make changes. Default false. */
  allowChanges?: boolean;
  /** Reports transport problems, for stderr. */
  onError?: (error: Error) => void;
}

/** Maximum size of a message from the client. */
const messageMaxBytes = 4 * 1024 ** 2;

/** Serves MCP over stdio for one assistant and forwards each call to the daemon. Resolves when stdin ends or `signal` aborts. */
export async function runMcpProxy(options: McpProxyOptions): Promise<void> {
  const { stdin, stdout, signal, version, onError } = options;
  const factory = () =>
    createMcpServer({
      version,
      listTools: () => offeredTools(options),
      callTool: (name, input, callSignal) => forward(options, name, input, AbortSignal.any([callSignal, signal])),
    });
  const transport = new StdioServerTransport(stdin, stdout, { maxBufferSize: messageMaxBytes });
  const handle = serveStdio(factory, { transport, ...(onError ? { onerror: onError } : {}) });
  try {
    await ended(stdin, stdout, signal);
  } finally {
    await handle.close();
  }
}

/** Falls back to the tools of this build while the daemon is not running: clients list tools only at start, and would show none until restarted. */
async function offeredTools({ listTools, signal, allowChanges }: McpProxyOptions): Promise<readonly McpTool[]> {
  try {
    const tools = await listTools(signal);
    return briefTools(tools.filter((tool) => isForModels(tool, allowChanges ?? false)));
  } catch (error) {
    if (CoralError.from(error).code !== "unavailable") throw error;
    return mcpTools(colonyTools, (allowChanges ?? false) ? "exec" : "read");
  }
}

async function forward(
  options: McpProxyOptions,
  name: string,
  input: Record<string, unknown>,
  signal: AbortSignal,
): Promise<Record<string, unknown>> {
  try {
    return await options.callTool(name, input, signal);
  } catch (error) {
    const problem = CoralError.from(error);
    if (problem.code !== "unavailable" || problem.message.includes("coral ")) throw problem;
    const message = `${problem.message}; start the colony with coral up or coral colony start and retry`;
    throw new CoralError({ code: "unavailable", message, cause: problem, details: problem.details });
  }
}

/** Detects that the client exited: stdin closes, or writing to stdout fails (EPIPE). */
function ended(stdin: Readable, stdout: Writable, signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    const done = (): void => resolve();
    if (signal.aborted || stdin.readableEnded || stdin.destroyed) return done();
    signal.addEventListener("abort", done, { once: true });
    stdin.once("end", done).once("close", done).once("error", done);
    stdout.once("close", done).once("error", done);
  });
}
