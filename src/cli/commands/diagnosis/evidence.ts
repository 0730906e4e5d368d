import { tableOf } from "../../output/table.ts";
import type { Invocation } from "../../run/invocation.ts";
import { showTool } from "../../run/show-tool.ts";
import { evidencePage } from "./diagnosis-page.ts";

/** `coral evidence <id>`: one piece of evidence with its figures. */
export async function run(invocation: Invocation): Promise<void> {
  const { print } = invocation;
  await showTool(invocation, "coral_evidence", {
    table: (evidence) =>
      tableOf(
        [evidence],
        [
          { title: "ID", key: "id", cell: ({ id }) => id },
          { title: "SERVICE", key: "service", cell: ({ service }) => service },
          { title: "USUAL", key: "usual", cell: ({ usual }) => usual },
          { title: "NOW", key: "now", cell: ({ now }) => now },
        ],
      ),
    page: (answer) => evidencePage(answer, print, Date.now()),
  });
}
