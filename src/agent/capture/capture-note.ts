import type { event, RowOf } from "../../store/signals/index.ts";
import type { AuditNote } from "../audit/audit-log.ts";

/** A capture's event as an entry of the audit. */
export function captureNote(row: RowOf<typeof event.columns>): AuditNote {
  const details = JSON.parse(row.details) as { captureId?: string; caller?: string; reason?: string };
  const isBegun = row.kind === "capture-started";
  return {
    kind: "capture",
    phase: isBegun ? "begun" : "ended",
    command_id: details.captureId ?? "",
    caller: details.caller ?? "",
    target: `service ${row.service ?? ""}`,
    place: "host",
    command: "capture",
    reason: isBegun ? "" : (details.reason ?? ""),
    details: row.details,
  };
}
