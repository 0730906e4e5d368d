import { escapeText } from "../../../base/escape-text.ts";
import { tableOf } from "../../output/table.ts";
import type { Invocation } from "../../run/invocation.ts";
import { showTool } from "../../run/show-tool.ts";

/** `coral agent revoke <agent>`: takes effect at once, also for an open tunnel. */
export async function run(invocation: Invocation): Promise<void> {
  await showTool(invocation, "coral_revoke_agent", {
    table: ({ agentId }) => tableOf([agentId], [{ title: "AGENT", key: "agentId", cell: (id) => id }]),
    page: ({ agentId }) => `agent ${escapeText(agentId)} revoked; it can rejoin only with a new join token and identity\n`,
  });
}
