import { tableOf } from "../../output/table.ts";
import type { Invocation } from "../../run/invocation.ts";
import { showTool } from "../../run/show-tool.ts";
import { databasePage } from "./database-page.ts";

/** `coral query database <service>`: findings, then sessions, locks, plan and tables. */
export async function run(invocation: Invocation): Promise<void> {
  await showTool(invocation, "coral_query_database", {
    table: ({ databases }) =>
      tableOf(
        databases.flatMap(({ agentId, port, findings }) => findings.map((finding) => ({ agentId, port, ...finding }))),
        [
          { title: "AGENT", key: "agent", cell: ({ agentId }) => agentId },
          { title: "PORT", key: "port", cell: ({ port }) => port },
          { title: "KIND", key: "kind", cell: ({ kind }) => kind },
          { title: "POINTER", key: "pointer", cell: ({ pointer }) => pointer },
          { title: "FINDING", key: "finding", cell: ({ statement }) => statement },
          { title: "FIX", key: "fix", cell: ({ fix }) => fix },
        ],
      ),
    page: (answer) => databasePage(answer, invocation.print),
    isEmpty: () => false,
  });
}
