import { escapeText } from "../../../base/escape-text.ts";
import type { RuntimeRefreshed } from "../../../tools/index.ts";
import { tableOf } from "../../output/table.ts";
import { callAgent } from "../../run/connection.ts";
import type { Invocation } from "../../run/invocation.ts";
import { showAnswer } from "../../run/show-answer.ts";
import { containerRuntimeText, containersText, no, orderedCapabilities, runtimeText, yes } from "./runtime-text.ts";

/** `coral agent refresh-context`: makes the agent of this host detect its runtime again. Running commands are not affected. */
export async function run(invocation: Invocation): Promise<void> {
  const ask = (): Promise<RuntimeRefreshed> => callAgent<RuntimeRefreshed>(invocation, { method: "POST", path: "/v1/runtime/refresh" });
  await showAnswer(invocation, ask, {
    table: ({ runtime, changes }) =>
      tableOf(
        [runtime],
        [
          { title: "RUNTIME", key: "runtimeType", cell: (row) => row.runtimeType },
          { title: "MODE", key: "sidecarMode", cell: (row) => row.sidecarMode },
          { title: "CRI", key: "containerRuntime", cell: (row) => row.containerRuntime?.type },
          { title: "CHANGES", key: "changes", cell: () => changes.join("; ") },
        ],
      ),
    page: (answer) => page(answer, invocation),
  });
}

/** What the agent detected, what changed, and whether the colony has the change already. */
function page({ runtime, changes, isTold }: RuntimeRefreshed, { print }: Invocation): string {
  const { style } = print;
  const { containerRuntime } = runtime;
  const lines = [
    `Runtime:      ${runtimeText(runtime)}`,
    `CRI:          ${containerRuntime ? `${containerRuntimeText(containerRuntime)} at ${escapeText(containerRuntime.socketPath)}` : "none"}`,
    `Containers:   ${containersText(runtime)}`,
    `Capabilities: ${orderedCapabilities(runtime)
      .map(({ name, available }) => `${available ? yes : no} ${escapeText(name)}`)
      .join("  ")}`,
    "",
  ];
  if (changes.length === 0) lines.push("No changes.");
  else {
    lines.push(style("bold", "Changed:"), ...changes.map((change) => `  ${escapeText(change)}`));
    lines.push(
      isTold ? "Reported to the colony." : style("yellow", "The colony is unreachable; the agent reports the change when it reconnects."),
    );
  }
  return `${lines.join("\n")}\n`;
}
