import type { AuditRecordFact } from "../../../tools/index.ts";
import type { Cell } from "../../output/table.ts";

/** Short text for the outcome. `held` and `decided` belong to approvals; an end with the reason `lost` means the outcome is unknown. */
export function outcomeCell({ phase, reason, exitCode, kind }: AuditRecordFact): Cell {
  switch (phase) {
    case "denied":
      // The rest of the line names the command.
      return { text: reason === "" ? "denied" : `denied: ${reason.replace(/^Cannot run this command: /, "")}`, style: "red" };
    case "held":
      return { text: "waits for approval", style: "yellow" };
    case "asked":
    case "begun":
      return { text: "runs", style: "cyan" };
    case "decided":
      return { text: reason, style: reason.startsWith("denied") ? "red" : "green" };
    case "ended": {
      if (exitCode === 0) return { text: kind === "sql" ? reason : "exit 0", style: "green" };
      if (exitCode !== null && reason === "exited") return { text: `exit ${exitCode}`, style: "yellow" };
      return { text: reason === "" ? "ended" : reason, style: reason === "lost" ? "red" : "yellow" };
    }
    default:
      return reason;
  }
}

/** A prefix long enough to identify the command. */
export function shortId(id: string): string {
  return id.slice(0, 8);
}

/** `exec ps aux`; a terminal without a command is a shell. */
export function whatText({ kind, command }: AuditRecordFact): string {
  return kind === "exec" && command !== "" ? command : command === "" || command === kind ? kind : `${kind}: ${command}`;
}
