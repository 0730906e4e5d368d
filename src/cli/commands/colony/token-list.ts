import type { TokenInfo } from "../../../tools/index.ts";
import { type Table, tableOf } from "../../output/table.ts";
import { relative } from "../../output/values.ts";
import type { Invocation } from "../../run/invocation.ts";
import { showTool } from "../../run/show-tool.ts";

/** `coral colony token list`. */
export async function run(invocation: Invocation): Promise<void> {
  await showTool(invocation, "coral_list_tokens", {
    table: (answer) => tokenTable(answer.tokens, Date.now()),
    empty: 'No tokens; create one with "coral colony token create"',
  });
}

export function tokenTable(tokens: readonly TokenInfo[], nowMs: number): Table {
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
