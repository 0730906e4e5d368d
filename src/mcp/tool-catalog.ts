/**
 * Selects the tools to list. The list stays in a model's context for the whole conversation, so when all tools exceed the budget it
 * contains the most useful ones and two tools that find and call the others. Every tool can be called by name, listed or not.
 */

import type { McpTool } from "./mcp-server.ts";

/** Budget in characters of JSON, about 2,900 tokens. */
const maxListLength = 11_600;

/** Priority order of listing, as far as the budget allows: what is wrong, where, the evidence, and tools to look further. */
const essential: readonly string[] = [
  "coral_query_summary",
  "coral_diagnose",
  "coral_get_status",
  "coral_list_services",
  "coral_get_topology",
  "coral_query_red",
  "coral_query_traces",
  "coral_query_logs",
  "coral_query_host",
  "coral_query_sql",
  "coral_agent_exec",
  "coral_get_external_dependencies",
  "coral_get_ingress",
  "coral_get_egress",
  "coral_query_deployments",
  "coral_query_metrics",
];

export const searchToolName = "coral_search_tools";
export const callToolName = "coral_call_tool";

const searchTool: McpTool = {
  name: searchToolName,
  title: "Search tools",
  description:
    "Find tools that are not in the list (agents, connections, ingress, egress, dependencies, events, captures …), with their inputs.",
  changes: false,
  inputSchema: { type: "object", properties: { query: { type: "string", description: "words; none: all tools by name" } } },
};

const callTool: McpTool = {
  name: callToolName,
  title: "Call a tool",
  description: "Call any tool that coral_search_tools found.",
  // The called tool may make changes.
  changes: true,
  inputSchema: {
    type: "object",
    properties: { name: { type: "string" }, input: { type: "object" }, cursor: { type: "string" } },
    required: ["name"],
  },
};

/** The listed tools. */
export function listedTools(tools: readonly McpTool[]): readonly McpTool[] {
  if (lengthOf(tools) <= maxListLength) return tools;
  const pair = [searchTool, { ...callTool, changes: tools.some(({ changes }) => changes) }];
  let left = maxListLength - lengthOf(pair);
  const some = essential.flatMap((wanted) => {
    const tool = tools.find(({ name }) => name === wanted);
    if (!tool || lengthOf(tool) > left) return [];
    left -= lengthOf(tool);
    return [tool];
  });
  return [...some, ...pair];
}

/** Size on the wire, including annotations. */
function lengthOf(tools: McpTool | readonly McpTool[]): number {
  const annotationsLength = 45;
  return JSON.stringify(tools).length + annotationsLength * (Array.isArray(tools) ? tools.length : 1);
}

const maxFound = 5;

export function searchTools(tools: readonly McpTool[], query: string): Record<string, unknown> {
  const words = query.toLowerCase().match(/[a-z0-9]{2,}/g) ?? [];
  const scored = tools
    .map((tool) => ({ tool, score: scoreOf(tool, words) }))
    .filter(({ score }) => score > 0)
    .toSorted((a, b) => b.score - a.score || a.tool.name.localeCompare(b.tool.name));
  if (scored.length === 0) return { tools: tools.map(({ name, title }) => ({ name, title })) };
  return {
    tools: scored.slice(0, maxFound).map(({ tool: { name, description, inputSchema } }) => ({ name, description, inputSchema })),
  };
}

/** Scores a tool: a keyword in the name counts most, then in the title, then anywhere. Plurals match their singular. */
function scoreOf({ name, title, description, inputSchema }: McpTool, words: readonly string[]): number {
  const anywhere = `${description} ${JSON.stringify(inputSchema)}`.toLowerCase();
  return words
    .map((word) => word.replace(/(?<=..)s$/, ""))
    .map((word) => (name.includes(word) ? 10 : 0) + (title.toLowerCase().includes(word) ? 5 : 0) + (anywhere.includes(word) ? 1 : 0))
    .reduce((total, score) => total + score, 0);
}
