import type { Invocation } from "../../run/invocation.ts";
import { showTool } from "../../run/show-tool.ts";
import { objectiveTable } from "./slo-list.ts";

/** `coral slo set <service>`. */
export async function run(invocation: Invocation): Promise<void> {
  await showTool(invocation, "coral_set_slo", {
    table: (objective) => objectiveTable([objective]),
    after: () => invocation.print.note("a breach opens an incident; coral slo list shows all objectives"),
  });
}
