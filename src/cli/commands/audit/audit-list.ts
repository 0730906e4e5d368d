import { CoralError } from "../../../base/errors.ts";
import { parseDurationMs } from "../../../base/units.ts";
import type { AuditList } from "../../../tools/index.ts";
import { tableOf, valueColumn } from "../../output/table.ts";
import { duration, localTime } from "../../output/values.ts";
import { agentNames } from "../../run/agent-names.ts";
import { askAgent, connectColony } from "../../run/connection.ts";
import type { Invocation } from "../../run/invocation.ts";
import { showAnswer } from "../../run/show-answer.ts";
import { toolInput } from "../../run/show-tool.ts";
import type { ToolInput } from "../../run/tool-command.ts";
import { outcomeCell, shortId, whatText } from "./audit-cells.ts";

type Filters = ToolInput<"coral_list_audit">;

/** `coral audit list`: newest first. */
export async function run(invocation: Invocation): Promise<void> {
  const input = toolInput(invocation, "coral_list_audit");
  const { since } = input;
  const ask = invocation.options.flag("local") ? readLocally(invocation, input) : await readFromColony(invocation, input);
  await showAnswer(invocation, ask, {
    table: ({ records }) => {
      const nowMs = Date.now();
      const nameOf = agentNames(records);
      return tableOf(records, [
        { title: "TIME", key: "at", cell: (record) => localTime(record.at, nowMs), raw: (record) => record.at },
        valueColumn("ID", "id", (record) => record.id, shortId),
        // Entries about Coral's own actions, such as pruning the audit, have no caller.
        { title: "WHO", key: "caller", cell: (record) => record.caller || "coral" },
        { title: "BY", key: "through", cell: (record) => record.through || null },
        {
          title: "AT",
          key: "hostname",
          cell: ({ agentId }) => (agentId === null ? "colony" : nameOf(agentId)),
          raw: (record) => record.hostname ?? "colony",
        },
        { title: "TARGET", key: "target", cell: (record) => record.target },
        { title: "WHAT", key: "command", cell: whatText, raw: (record) => record.command },
        { title: "RULE", key: "rule", cell: (record) => record.rule || null },
        { title: "OUTCOME", key: "reason", cell: outcomeCell, raw: (record) => record.reason },
        {
          title: "TOOK",
          key: "durationMs",
          cell: (record) => (record.durationMs > 0 ? duration(record.durationMs) : null),
          align: "right",
        },
        { title: "KIND", key: "kind", cell: (record) => record.kind, wide: true },
        { title: "PHASE", key: "phase", cell: (record) => record.phase, wide: true },
        { title: "EXIT", key: "exitCode", cell: (record) => record.exitCode, wide: true },
        { title: "FROM", key: "callerFrom", cell: (record) => record.callerFrom || null, wide: true },
        { title: "QUESTION", key: "questionId", cell: (record) => record.questionId || null, wide: true },
        { title: "PLACE", key: "place", cell: (record) => record.place || null, wide: true },
        { title: "RAN AS", key: "runAs", cell: (record) => record.runAs || null, wide: true },
        { title: "STDOUT", key: "stdoutBytes", cell: (record) => record.stdoutBytes, wide: true },
        { title: "STDERR", key: "stderrBytes", cell: (record) => record.stderrBytes, wide: true },
        { title: "RECORDING", key: "recording", cell: (record) => record.recording || null, wide: true },
      ]);
    },
    empty: `No matching audit records in the last ${since}; look further back with --since`,
  });
}

/** The colony's copy covers all agents, but lacks what it has not pulled yet. */
async function readFromColony(invocation: Invocation, input: Filters): Promise<() => Promise<AuditList>> {
  const colony = await connectColony(invocation);
  return () => colony.call("coral_list_audit", input);
}

/** The agent's own chain, over its socket: works without a colony, and for root or the agent's user only. */
function readLocally(invocation: Invocation, { agent, since = "", ...filters }: Filters): () => Promise<AuditList> {
  if (agent !== undefined)
    throw new CoralError({ code: "usage", message: "Cannot use --agent with --local: this machine has one agent; drop one of the two" });
  const query = new URLSearchParams({ sinceMs: String(parseDurationMs(since)) });
  for (const [name, value] of Object.entries(filters)) query.set(name, String(value));
  return () => askAgent<AuditList>(invocation, `/v1/audit?${query}`);
}
