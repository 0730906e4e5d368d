import { escapeText } from "../../../base/escape-text.ts";
import type { ApprovalDecided } from "../../../tools/index.ts";
import { tableOf } from "../../output/table.ts";
import type { Invocation } from "../../run/invocation.ts";
import type { AnswerView } from "../../run/show-answer.ts";
import { showTool } from "../../run/show-tool.ts";
import { shortId } from "./audit-cells.ts";

/** `coral approval approve <id>`. */
export function approve(invocation: Invocation): Promise<void> {
  return decide(invocation, true);
}

/** `coral approval deny <id>`. */
export function deny(invocation: Invocation): Promise<void> {
  return decide(invocation, false);
}

/** Exits with 1 only when every agent rejected the decision: one that accepted it makes the command run or end. */
async function decide(invocation: Invocation, isApproved: boolean): Promise<void> {
  const { print } = invocation;
  const word = isApproved ? "Approved" : "Denied";
  const view: AnswerView<ApprovalDecided> = {
    table: ({ outcomes }) =>
      tableOf(outcomes, [
        { title: "ID", key: "approvalId", cell: (outcome) => outcome.approvalId },
        { title: "AT", key: "hostname", cell: (outcome) => outcome.hostname },
        { title: "APPROVED", key: "isApproved", cell: (outcome) => outcome.isApproved },
        { title: "PROBLEM", key: "problem", cell: (outcome) => outcome.problem },
      ]),
    page: ({ outcomes }) =>
      outcomes
        .map(({ approvalId, hostname, problem }) =>
          problem === null
            ? `${print.style(isApproved ? "green" : "yellow", word)} ${shortId(approvalId)} at ${escapeText(hostname)}\n`
            : `${print.style("red", "Rejected")} by ${escapeText(hostname)}: ${escapeText(problem)}\n`,
        )
        .join(""),
    exitCode: ({ outcomes }) => (outcomes.every(({ problem }) => problem !== null) ? 1 : 0),
  };
  await showTool(invocation, "coral_decide_approval", view, { approve: isApproved });
}
