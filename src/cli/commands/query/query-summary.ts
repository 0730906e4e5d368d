import { tableOf } from "../../output/table.ts";
import type { Invocation } from "../../run/invocation.ts";
import { showTool } from "../../run/show-tool.ts";
import { summaryPage } from "./summary-page.ts";
import { summaryColumns } from "./summary-text.ts";

/** `coral query summary [service]`: health of all services, worst first, or one service in full. */
export async function run(invocation: Invocation): Promise<void> {
  const { args, print } = invocation;
  await showTool(invocation, "coral_query_summary", {
    table: ({ services }) => tableOf(services, summaryColumns),
    page: (answer, wide) => summaryPage(answer, print, { wide, isOne: args[0] !== undefined, nowMs: Date.now() }),
    empty: "No services discovered yet; agents scan every half minute, see coral services",
  });
}
