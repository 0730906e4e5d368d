import type { CommandOrder } from "../../proto/coral/agent/v1/commands_pb.ts";
import type { SendResponse } from "../../transport/index.ts";
import type { PendingApprovals } from "../audit/pending-approvals.ts";

export interface WatchApprovalsOptions {
  approvals?: Pick<PendingApprovals, "held" | "gone">;
  agentId: string;
  order: CommandOrder;
  send: SendResponse;
}

/** Passes every event on, and records the command as waiting for approval while the agent holds it. */
export function watchApprovals({ approvals, agentId, order, send }: WatchApprovalsOptions): { send: SendResponse } & Disposable {
  let held = "";
  const end = (): void => {
    if (held !== "") approvals?.gone(agentId, held);
    held = "";
  };
  const watched: SendResponse = (response) => {
    const { event } = response;
    if (event.case === "approvalNeeded") {
      held = event.value.approvalId;
      const { kind, commandId, caller, text, argv, target } = order;
      approvals?.held({
        agentId,
        commandId,
        approvalId: held,
        kind,
        caller: caller?.name ?? "",
        target: [target?.kind ?? "host", target?.service ?? "", target?.container ?? ""].filter((part) => part !== "").join(" "),
        command: text === "" ? argv.join(" ") : text,
        rule: event.value.rule,
        expiresAtMs: Number(event.value.expiresAtMs),
      });
    } else if (event.case === "started") end();
    return send(response);
  };
  return { send: watched, [Symbol.dispose]: end };
}
