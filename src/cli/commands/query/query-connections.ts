import type { ConnectionRow } from "../../../model/connections.ts";
import { protocolName } from "../../output/known-ports.ts";
import { type Column, tableOf, valueColumn } from "../../output/table.ts";
import { addressWithPort, bytes, relative } from "../../output/values.ts";
import type { Invocation } from "../../run/invocation.ts";
import { showTool, toolInput } from "../../run/show-tool.ts";
import { latencyColumn } from "./red-text.ts";

/** `coral query connections [service]`: one line per service, peer and port. */
export async function run(invocation: Invocation): Promise<void> {
  const { since } = toolInput(invocation, "coral_query_connections");
  await showTool(invocation, "coral_query_connections", {
    table: (answer) => tableOf(answer.connections, columnsAt(Date.now())),
    empty: `No matching connections in the last ${since}; look further back with --since`,
  });
}

/** OPEN is the number at the end of the window; OPENED and CLOSED count within it. */
function columnsAt(nowMs: number): readonly Column<ConnectionRow>[] {
  return [
    { title: "SERVICE", key: "service", cell: (row) => row.service },
    { title: "ROLE", key: "role", cell: (row) => row.role },
    { title: "PEER", key: "peer", align: "left", cell: peerText, raw: (row) => row.peer },
    { title: "PROTOCOL", key: "protocol", cell: (row) => protocolName(row.protocol, row.serverPort), raw: (row) => row.protocol },
    { title: "OPEN", key: "open", cell: (row) => row.open },
    { title: "OPENED", key: "opened", cell: (row) => row.opened },
    { title: "CLOSED", key: "closed", cell: (row) => row.closed },
    {
      title: "FAILED",
      key: "failed",
      align: "right",
      cell: (row) => (row.failed > 0 ? { text: failedText(row), style: "red" } : 0),
      raw: (row) => row.failed,
    },
    valueColumn("SENT", "bytesSent", (row) => row.bytesSent, bytes, { align: "right" }),
    valueColumn("RECEIVED", "bytesReceived", (row) => row.bytesReceived, bytes, { align: "right" }),
    latencyColumn("RTT", "rttUs", (row) => row.rttUs),
    { title: "RETRANSMITS", key: "retransmits", cell: (row) => row.retransmits },
    { title: "REFUSED", key: "refused", cell: (row) => row.refused, wide: true },
    { title: "RESET", key: "reset", cell: (row) => row.reset, wide: true },
    { title: "TIMED OUT", key: "timedOut", cell: (row) => row.timedOut, wide: true },
    { title: "ADDRESS", key: "peerAddress", align: "left", cell: (row) => row.peerAddress, wide: true },
    { title: "PORT", key: "serverPort", cell: (row) => row.serverPort, wide: true },
    {
      title: "LAST SEEN",
      key: "lastSeenAt",
      cell: (row) => relative(row.lastSeenAt, nowMs),
      raw: (row) => row.lastSeenAt,
      wide: true,
    },
  ];
}

/** `2 refused`, `3 (2 refused, 1 reset)`, `5` when the reasons are unknown. */
function failedText({ failed, refused, reset, timedOut }: ConnectionRow): string {
  const reasons = (
    [
      [refused, "refused"],
      [reset, "reset"],
      [timedOut, "timed out"],
    ] as const
  ).flatMap(([count, name]) => (count > 0 ? [`${count} ${name}`] : []));
  if (reasons.length === 1 && [refused, reset, timedOut].includes(failed)) return reasons[0] ?? "";
  return reasons.length === 0 ? String(failed) : `${failed} (${reasons.join(", ")})`;
}

/** The port of a callee is part of its address; the service's own port is implied by the protocol. */
function peerText({ peer, peerAddress, role, serverPort }: ConnectionRow): string {
  const port = role === "client" ? serverPort : null;
  if (peer === peerAddress) return addressWithPort(peer, port);
  return port === null ? peer : `${peer}:${port}`;
}
