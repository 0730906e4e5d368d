import type { TokenRevoked } from "../../../tools/index.ts";
import { tableOf } from "../../output/table.ts";
import { connectColony } from "../../run/connection.ts";
import type { Invocation } from "../../run/invocation.ts";
import { showAnswer } from "../../run/show-answer.ts";

/** `coral colony token revoke <token-id>`. */
export async function run(invocation: Invocation): Promise<void> {
  const tokenId = invocation.args[0] ?? "";
  const colony = await connectColony(invocation);
  const answer = await colony.call<TokenRevoked>("coral_revoke_token", { tokenId });
  await showAnswer(invocation, () => Promise.resolve(answer), {
    table: () => tableOf([tokenId], [{ title: "TOKEN ID", key: "tokenId", cell: (id) => id }]),
    page: () => `token ${tokenId} revoked\n`,
  });
}
