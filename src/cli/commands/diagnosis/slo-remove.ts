import { tableOf } from "../../output/table.ts";
import type { Invocation } from "../../run/invocation.ts";
import { showTool } from "../../run/show-tool.ts";

/** `coral slo remove <service>`. */
export async function run(invocation: Invocation): Promise<void> {
  await showTool(invocation, "coral_remove_slo", {
    table: (answer) => tableOf([answer], [{ title: "REMOVED", key: "removed", cell: ({ removed }) => removed }]),
    page: () => "",
    after: () => invocation.print.note("objective removed; the service is judged against its baseline again"),
  });
}
