/** `coral colony token`. */

import type { TokenCreated, TokenInfo } from "../../../tools/index.ts";
import { parseToken } from "../../../transport/index.ts";
import { type Table, tableOf } from "../../output/table.ts";
import { plural, relative } from "../../output/values.ts";
import { connectColony } from "../../run/connection.ts";
import type { Invocation } from "../../run/invocation.ts";
import type { AnswerView } from "../../run/show-answer.ts";
import { showTool, toolInput } from "../../run/show-tool.ts";

/** Prints the token alone on stdout, so that a script can capture it. */
export async function createToken(invocation: Invocation): Promise<void> {
  const { print, format } = invocation;
  const { kind = "join", name = "" } = toolInput(invocation, "coral_create_token");
  const colony = await connectColony(invocation);
  const view: AnswerView<TokenCreated> = {
    table: (created) => tokenTable([created], Date.now()),
    page: ({ token }) => `${token}\n`,
    after: ({ token, tokenId, usesLeft, expiresAt }) => {
      if (isForThisMachineOnly(token, kind)) print.warning(thisMachineOnly);
      // No hints for scripts, which request a format.
      if (format !== "table") return;
      const uses = usesLeft === null ? "unlimited uses" : plural(usesLeft, "use");
      print.note(`token ${tokenId}, valid until ${expiresAt}, ${uses}; it is not shown again`);
      print.note(
        kind === "join"
          ? "on the other host: CORAL_JOIN_TOKEN=<token> coral agent start --daemon"
          : `on the other machine: coral config add-context ${colony.name} --token -`,
      );
    },
  };
  await showTool(invocation, "coral_create_token", view, { kind, name });
}

const thisMachineOnly =
  "this token works on this machine only: the colony listens on loopback; set listen in its colony.yaml to an address that other hosts reach, restart it, and create the token again";

/** Every endpoint in the token is a loopback address. */
function isForThisMachineOnly(token: string, kind: TokenCreated["kind"]): boolean {
  try {
    return parseToken(token, kind).endpoints.every((endpoint) => /^(127\.|localhost[:.]|\[::1\])/.test(endpoint));
  } catch {
    // A token of a newer colony cannot be parsed here, so skip the warning.
    return false;
  }
}

/** Secrets cannot be listed: the colony stores only their hashes. */
export async function listTokens(invocation: Invocation): Promise<void> {
  await showTool(invocation, "coral_list_tokens", {
    table: (answer) => tokenTable(answer.tokens, Date.now()),
    empty: 'No tokens; create one with "coral colony token create"',
  });
}

/** Agents that joined with the token keep their certificates; `coral agent revoke` rejects those. */
export async function revokeToken(invocation: Invocation): Promise<void> {
  const tokenId = invocation.args[0] ?? "";
  await showTool(invocation, "coral_revoke_token", {
    table: () => tableOf([tokenId], [{ title: "TOKEN ID", key: "tokenId", cell: (id) => id }]),
    page: () => `token ${tokenId} revoked\n`,
  });
}

function tokenTable(tokens: readonly TokenInfo[], nowMs: number): Table {
  return tableOf(tokens, [
    { title: "TOKEN ID", key: "tokenId", cell: (token) => token.tokenId },
    { title: "KIND", key: "kind", cell: (token) => token.kind },
    { title: "PERMISSION", key: "permission", cell: (token) => token.permission },
    { title: "STATE", key: "state", cell: (token) => ({ text: token.state, style: token.state === "usable" ? "green" : "dim" }) },
    { title: "USES LEFT", key: "usesLeft", cell: (token) => token.usesLeft ?? "unlimited", raw: (token) => token.usesLeft, align: "right" },
    { title: "EXPIRES", key: "expiresAt", cell: (token) => relative(token.expiresAt, nowMs), raw: (token) => token.expiresAt },
    { title: "CREATED", key: "createdAt", cell: (token) => relative(token.createdAt, nowMs), raw: (token) => token.createdAt, wide: true },
    { title: "NOTE", key: "name", cell: (token) => token.name },
  ]);
}
