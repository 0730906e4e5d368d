import type { CommandOrder } from "../../proto/coral/agent/v1/commands_pb.ts";
import type { FrameStream } from "../../transport/index.ts";
import type { PendingApprovals } from "../audit/pending-approvals.ts";

export interface WatchApprovalsOptions {
  approvals?: Pick<PendingApprovals, "held" | "gone">;
  agentId: string;
  order: CommandOrder;
  sink: Pick<FrameStream, "send">;
}

/** Passes everything on, and tells the book while the agent holds the command back. */
export function watchApprovals({
  approvals,
  agentId,
  order,
  sink,
}: WatchApprovalsOptions): { sink: Pick<FrameStream, "send"> } & Disposable {
  let held = "";
  const end = (): void => {
    if (held !== "") approvals?.gone(agentId, held);
    held = "";
  };
  const send: FrameStream["send"] = (frame) => {
    const message = frame.kind === "control" ? (frame.value as { kind?: string; [field: string]: unknown }) : undefined;
    if (message?.kind === "approval-needed") {
      held = String(message["approvalId"]);
      const { kind, commandId, caller, text, argv, target } = order;
      approvals?.held({
        agentId,
        commandId,
        approvalId: held,
        kind,
        caller: caller?.name ?? "",
        target: [target?.kind ?? "host", target?.service ?? "", target?.container ?? ""].filter((part) => part !== "").join(" "),
        command: text === "" ? argv.join(" ") : text,
        rule: String(message["rule"]),
        expiresAtMs: Number(message["expiresAtMs"]),
      });
    } else if (message?.kind === "started") end();
    return sink.send(frame);
  };
  return { sink: { send }, [Symbol.dispose]: end };
}
