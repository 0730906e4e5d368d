import { tableOf } from "../../output/table.ts";
import type { Invocation } from "../../run/invocation.ts";
import { showTool } from "../../run/show-tool.ts";

/** `coral deploy mark <service>`: reports a deployment that Coral cannot detect. */
export async function run(invocation: Invocation): Promise<void> {
  const { print, format } = invocation;
  await showTool(invocation, "coral_mark_deployment", {
    table: ({ deployment }) =>
      tableOf(
        [deployment],
        [
          { title: "ID", key: "id", cell: ({ id }) => id },
          { title: "SERVICE", key: "service", cell: ({ service }) => service },
          { title: "VERSION", key: "version", cell: ({ version: named }) => named },
          { title: "TIME", key: "at", cell: ({ at }) => at },
        ],
      ),
    page: ({ deployment }) => `${deployment.id}\n`,
    after: ({ deployment, isNew }) => {
      if (format !== "table") return;
      print.note(isNew ? "marked; Coral compares it with the time before" : "Coral had detected this deployment; added the mark to it");
      print.note(`coral query deployments ${deployment.service}`);
    },
  });
}
