import { tableOf } from "../../output/table.ts";
import type { Invocation } from "../../run/invocation.ts";
import { showTool } from "../../run/show-tool.ts";

/** `coral colony token revoke <token-id>`. */
export async function run(invocation: Invocation): Promise<void> {
  const tokenId = invocation.args[0] ?? "";
  await showTool(invocation, "coral_revoke_token", {
    table: () => tableOf([tokenId], [{ title: "TOKEN ID", key: "tokenId", cell: (id) => id }]),
    page: () => `token ${tokenId} revoked\n`,
  });
}
