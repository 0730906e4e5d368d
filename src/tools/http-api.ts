/** The HTTP API of the tool table as a function, so that any server can route to it: `GET /v1/tools` and `POST /v1/tools/<name>`. */

import { CoralError, httpStatusOf } from "../base/errors.ts";
import { type Permission, permits, type Tool, type ToolCallContext } from "./define-tool.ts";

export interface ToolHttpRequest {
  method: string;
  /** Path without query string. */
  path: string;
  /** The parsed JSON body; undefined when there was none. */
  body: unknown;
  /** What the caller may do; undefined = not authenticated. */
  permission: Permission | undefined;
}

export interface ToolHttpResponse {
  status: number;
  json: Record<string, unknown>;
  /** Header `allow`, with status 405. */
  allow?: string;
}

/** One entry of `GET /v1/tools`. */
export interface ToolListEntry {
  name: string;
  title: string;
  description: string;
  permission: Permission;
  changes: boolean;
  inputSchema: Record<string, unknown>;
  outputSchema: Record<string, unknown>;
}

const basePath = "/v1/tools";

/** Whether `handleToolRequest` is the one to answer this path. */
export function isToolPath(path: string): boolean {
  return path === basePath || path.startsWith(`${basePath}/`);
}

/** Never throws: a failure is `{ error: { code, message, details } }` with the status of its code. */
export async function handleToolRequest<Backend>(
  tools: readonly Tool<Backend>[],
  backend: Backend,
  request: ToolHttpRequest,
  context: ToolCallContext,
): Promise<ToolHttpResponse> {
  try {
    if (request.permission === undefined) {
      throw new CoralError({ code: "unauthenticated", message: `Cannot serve ${request.path}: the request carries no valid token` });
    }
    const allow = request.path === basePath ? "GET" : "POST";
    if (request.method !== allow) {
      const error = new CoralError({ code: "usage", message: `Cannot ${request.method} ${request.path}: use ${allow}` });
      return { ...errorResponse(error), status: 405, allow };
    }
    if (request.path === basePath) return { status: 200, json: { tools: listTools(tools, request.permission) } };
    const tool = findTool(tools, request.path.slice(basePath.length + 1), request.permission);
    return { status: 200, json: await tool.call(backend, request.body, context) };
  } catch (error) {
    return errorResponse(CoralError.from(error));
  }
}

/** The tools that a caller may call, for lists. */
export function listTools<Backend>(tools: readonly Tool<Backend>[], permission: Permission): ToolListEntry[] {
  return tools
    .filter((tool) => permits(permission, tool.permission))
    .map((tool) => ({
      name: tool.name,
      title: tool.title,
      description: tool.description,
      permission: tool.permission,
      changes: tool.changes,
      inputSchema: tool.inputJsonSchema,
      outputSchema: tool.outputJsonSchema,
    }));
}

/** Throws `not-found` for a name that does not exist and `not-permitted` for one that the caller may not call. */
export function findTool<Backend>(tools: readonly Tool<Backend>[], name: string, permission: Permission): Tool<Backend> {
  const tool = tools.find((candidate) => candidate.name === name);
  if (!tool) {
    const names = tools.filter((candidate) => permits(permission, candidate.permission)).map((candidate) => candidate.name);
    throw new CoralError({
      code: "not-found",
      message: `Cannot call tool "${name}": there is none of that name; the tools are ${names.join(", ")}`,
    });
  }
  if (!permits(permission, tool.permission)) {
    const details = { needed: tool.permission, held: permission };
    const message = `Cannot call ${name}: it needs the permission "${tool.permission}" and this token has "${permission}"`;
    throw new CoralError({ code: "not-permitted", message, details });
  }
  return tool;
}

function errorResponse(error: CoralError): ToolHttpResponse {
  const { code, message, details } = error;
  return { status: httpStatusOf(code), json: { error: { code, message, details } } };
}
