/** The colony's JSON endpoints: the tool table and MCP. */

import { CoralError } from "../base/errors.ts";
import type { Logger } from "../base/log.ts";
import { handleMcpRequest } from "../mcp/index.ts";
import { type Authorize, createHttpRoutes, type HttpHandler, type Principal, type Route, type RouteContext } from "../mesh/index.ts";
import { type ColonyBackend, colonyTools, findTool, listTools, type Permission, permissions, type Tool } from "../tools/index.ts";
import type { ColonyMetrics } from "./colony-metrics.ts";

export interface ColonyRoutesOptions {
  backend: ColonyBackend;
  authorize: Authorize;
  metrics: ColonyMetrics;
  notReady: () => string | undefined;
  version: string;
  log: Logger;
}

export function createColonyRoutes(options: ColonyRoutesOptions): HttpHandler {
  const { backend, metrics, log } = options;
  const call = async (tool: Tool<ColonyBackend>, input: unknown, principal: Principal | undefined, signal: AbortSignal) => {
    try {
      const result = await tool.call(backend, input, { signal });
      metrics.toolCalls.inc(1, { tool: tool.name, outcome: "ok" });
      return result;
    } catch (error) {
      const problem = CoralError.from(error);
      metrics.toolCalls.inc(1, { tool: tool.name, outcome: problem.code });
      log.debug(`Tool ${tool.name} failed: ${problem.message}`, { caller: principal?.name, code: problem.code });
      throw problem;
    }
  };
  const routes: Route[] = [
    {
      kind: "json",
      method: "GET",
      path: "/v1/tools",
      permission: "read",
      handle: async (context) => ({ kind: "json", value: { tools: listTools(colonyTools, await strongestPermission(context)) } }),
    },
    {
      kind: "json",
      method: "POST",
      path: "/v1/tools/:name",
      permission: "read",
      handle: async (context) => {
        const tool = findTool(colonyTools, context.params["name"] ?? "", "admin");
        const principal = await context.authorize(tool.permission);
        return { kind: "json", value: await call(tool, context.body ?? {}, principal, context.signal) };
      },
    },
    {
      kind: "web",
      methods: ["GET", "POST", "DELETE"],
      path: "/mcp",
      permission: "read",
      handle: (request, context) =>
        handleMcpRequest(request, {
          tools: colonyTools.filter((tool) => tool.permission === "read"),
          version: options.version,
          call: (tool, input, signal) => call(tool, input, context.principal, AbortSignal.any([signal, context.signal])),
        }),
    },
  ];
  return createHttpRoutes({
    routes,
    authorize: options.authorize,
    notReady: options.notReady,
    metrics: () => metrics.registry.text(),
    log,
  });
}

/** What the caller may do at the most, for listing only what it could call. */
async function strongestPermission(context: RouteContext): Promise<Permission> {
  for (const permission of [...permissions].reverse()) {
    try {
      await context.authorize(permission);
      return permission;
    } catch (error) {
      // Not this one: try the next weaker. `read` was granted before the route ran.
      if (CoralError.from(error).code !== "not-permitted") throw error;
    }
  }
  return "read";
}
