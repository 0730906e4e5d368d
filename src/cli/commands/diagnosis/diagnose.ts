import { tableOf } from "../../output/table.ts";
import type { Invocation } from "../../run/invocation.ts";
import { showTool } from "../../run/show-tool.ts";
import { diagnosisPage } from "./diagnosis-page.ts";

/** `coral diagnose [question]`: causes, most likely first, on one screen. */
export async function run(invocation: Invocation): Promise<void> {
  const { print } = invocation;
  await showTool(invocation, "coral_diagnose", {
    table: ({ causes }) =>
      tableOf(causes, [
        { title: "SERVICE", key: "service", cell: ({ service }) => service },
        { title: "KIND", key: "kind", cell: ({ kind }) => kind },
        { title: "CONFIDENCE", key: "confidence", cell: ({ confidence }) => confidence },
        { title: "POINTER", key: "pointer", cell: ({ pointer }) => pointer },
      ]),
    page: (answer) => diagnosisPage(answer, print, Date.now()),
    isEmpty: () => false,
  });
}
