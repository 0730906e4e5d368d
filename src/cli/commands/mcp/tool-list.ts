import type { ToolListEntry } from "../../../tools/index.ts";
import { tableOf } from "../../output/table.ts";
import { connectColony } from "../../run/connection.ts";
import type { Invocation } from "../../run/invocation.ts";
import { showAnswer } from "../../run/show-answer.ts";

/** `coral tool list`: the tools that the caller's permission includes. */
export async function run(invocation: Invocation): Promise<void> {
  const colony = await connectColony(invocation);
  await showAnswer(invocation, () => colony.get<{ tools: ToolListEntry[] }>("/v1/tools"), {
    table: ({ tools }) =>
      tableOf(tools, [
        { title: "TOOL", key: "name", cell: (tool) => tool.name },
        { title: "PERMISSION", key: "permission", cell: (tool) => tool.permission },
        { title: "CHANGES", key: "changes", cell: (tool) => (tool.changes ? "yes" : "no"), raw: (tool) => tool.changes },
        {
          title: "INPUT",
          key: "input",
          cell: (tool) => Object.keys((tool.inputSchema["properties"] as object | undefined) ?? {}).join(","),
        },
        { title: "DESCRIPTION", key: "description", cell: (tool) => tool.description },
      ]),
    empty: "This token has no permission to call any tool",
  });
}
