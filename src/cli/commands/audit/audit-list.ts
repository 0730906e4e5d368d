import { CoralError } from "../../../base/errors.ts";
import type { AuditList } from "../../../tools/index.ts";
import { tableOf } from "../../output/table.ts";
import { duration, localTime } from "../../output/values.ts";
import { agentNames } from "../../run/agent-names.ts";
import { askAgent, connectColony } from "../../run/connection.ts";
import type { Invocation } from "../../run/invocation.ts";
import { showAnswer } from "../../run/show-answer.ts";
import { outcomeCell, shortId, whatText } from "./audit-cells.ts";

async function askColony(invocation: Invocation, input: Record<string, unknown>): Promise<() => Promise<AuditList>> {
  const colony = await connectColony(invocation);
  return () => colony.call<AuditList>("coral_list_audit", input);
}

function askLocally(invocation: Invocation, { agent, ...said }: Record<string, string | number>): () => Promise<AuditList> {
  if (agent !== undefined)
    throw new CoralError({ code: "usage", message: "Cannot use --agent with --local: this machine has one agent; leave one of them out" });
  const sinceMs = invocation.options.durationMs("since") ?? 86_400_000;
  const query = new URLSearchParams({ sinceMs: String(sinceMs) });
  for (const [name, value] of Object.entries(said)) query.set(name, String(value));
  return () => askAgent<AuditList>(invocation, `/v1/audit?${query}`);
}

/** `coral audit list`: newest first. */
export async function run(invocation: Invocation): Promise<void> {
  const { options } = invocation;
  const since = options.durationText("since") ?? "24h";
  const given = {
    user: options.text("user"),
    command: options.text("command"),
    target: options.text("target"),
    agent: options.text("agent"),
    kind: options.text("kind"),
    outcome: options.text("outcome"),
    limit: options.integer("limit", 1, 1_000),
  };
  const said = Object.fromEntries(Object.entries(given).filter(([, value]) => value !== undefined)) as Record<string, string | number>;
  const ask = options.flag("local") ? askLocally(invocation, said) : await askColony(invocation, { since, ...said });
  await showAnswer(invocation, ask, {
    table: ({ records }) => {
      const nowMs = Date.now();
      const nameOf = agentNames(records);
      return tableOf(records, [
        { title: "TIME", key: "at", cell: (record) => localTime(record.at, nowMs), raw: (record) => record.at },
        { title: "ID", key: "id", cell: (record) => shortId(record.id), raw: (record) => record.id },
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
    empty: `Nothing that fits was written down in the last ${since}; look further back with --since`,
  });
}
