import { tableOf, valueColumn } from "../../output/table.ts";
import { relative } from "../../output/values.ts";
import { agentNames } from "../../run/agent-names.ts";
import type { Invocation } from "../../run/invocation.ts";
import { showTool } from "../../run/show-tool.ts";
import { shortId } from "./audit-cells.ts";

/** `coral approval list`: oldest first. */
export async function run(invocation: Invocation): Promise<void> {
  await showTool(invocation, "coral_list_approvals", {
    table: ({ approvals }) => {
      const nowMs = Date.now();
      const nameOf = agentNames(approvals);
      return tableOf(approvals, [
        valueColumn("ID", "approvalId", (approval) => approval.approvalId, shortId),
        { title: "WHO", key: "caller", cell: (approval) => approval.caller },
        { title: "AT", key: "hostname", cell: ({ agentId }) => nameOf(agentId), raw: (approval) => approval.hostname },
        { title: "TARGET", key: "target", cell: (approval) => approval.target },
        { title: "COMMAND", key: "command", cell: (approval) => approval.command || approval.kind },
        { title: "RULE", key: "rule", cell: (approval) => approval.rule },
        { title: "WAITING SINCE", key: "heldAt", cell: (approval) => relative(approval.heldAt, nowMs), raw: (approval) => approval.heldAt },
        {
          title: "EXPIRES",
          key: "expiresAt",
          cell: (approval) => relative(approval.expiresAt, nowMs),
          raw: (approval) => approval.expiresAt,
        },
        { title: "KIND", key: "kind", cell: (approval) => approval.kind, wide: true },
        { title: "AGENT", key: "agentId", cell: (approval) => approval.agentId, wide: true },
      ]);
    },
    empty: "No commands wait for approval",
  });
}
