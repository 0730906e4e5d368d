import { escapeText } from "../../../base/escape-text.ts";
import type { AgentRevoked } from "../../../tools/index.ts";
import { tableOf } from "../../output/table.ts";
import { connectColony } from "../../run/connection.ts";
import type { Invocation } from "../../run/invocation.ts";
import { showAnswer } from "../../run/show-answer.ts";

/** `coral agent revoke <agent>`. */
export async function run(invocation: Invocation): Promise<void> {
  const agent = invocation.args[0] ?? "";
  const colony = await connectColony(invocation);
  const answer = await colony.call<AgentRevoked>("coral_revoke_agent", { agent });
  await showAnswer(invocation, () => Promise.resolve(answer), {
    table: () => tableOf([answer.agentId], [{ title: "AGENT", key: "agentId", cell: (id) => id }]),
    page: () => `agent ${escapeText(answer.agentId)} revoked; it can come back only with a new join token and identity\n`,
  });
}
