import { escapeText } from "../../../base/escape-text.ts";
import { given } from "../../../base/given.ts";
import type { ApprovalDecided } from "../../../tools/index.ts";
import { tableOf } from "../../output/table.ts";
import { connectColony } from "../../run/connection.ts";
import type { Invocation } from "../../run/invocation.ts";
import { showAnswer } from "../../run/show-answer.ts";
import { shortId } from "./audit-cells.ts";

/** Ends with 1 when no agent has taken the decision. */
export async function decideApproval(invocation: Invocation, approve: boolean): Promise<void> {
  const { args, options, print } = invocation;
  const colony = await connectColony(invocation);
  const reason = options.text("reason");
  const agent = options.text("agent");
  const input = {
    id: args[0] ?? "",
    approve,
    ...given({ reason, agent }),
  };
  const ask = async () => {
    const answer = await colony.call<ApprovalDecided>("coral_decide_approval", input);
    if (answer.outcomes.every(({ problem }) => problem !== null)) invocation.setExitCode(1);
    return answer;
  };
  const word = approve ? "Approved" : "Denied";
  await showAnswer(invocation, ask, {
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
            ? `${print.style(approve ? "green" : "yellow", word)} ${shortId(approvalId)} at ${escapeText(hostname)}\n`
            : `${print.style("red", "Not taken")} by ${escapeText(hostname)}: ${escapeText(problem)}\n`,
        )
        .join(""),
  });
}
