import { escapeText } from "../../../base/escape-text.ts";
import { formatBytes, formatDurationMs } from "../../../base/units.ts";
import type { AuditEntries, AuditEntryFact } from "../../../tools/index.ts";
import type { Printer } from "../../output/printer.ts";
import { tableOf } from "../../output/table.ts";
import { localTime } from "../../output/values.ts";
import type { Invocation } from "../../run/invocation.ts";
import { showTool } from "../../run/show-tool.ts";

/** `coral audit show <id>`: a page for people. */
export async function run(invocation: Invocation): Promise<void> {
  const { print } = invocation;
  await showTool(invocation, "coral_get_audit", {
    table: ({ entries }) =>
      tableOf(entries, [
        { title: "AT", key: "at", cell: (entry) => entry.at },
        { title: "CHAIN", key: "agentId", cell: (entry) => entry.agentId ?? "colony" },
        { title: "ENTRY", key: "entry", cell: (entry) => entry.entry },
        { title: "PHASE", key: "phase", cell: (entry) => entry.phase },
        { title: "CALLER", key: "caller", cell: (entry) => entry.caller },
        { title: "COMMAND", key: "command", cell: (entry) => entry.command },
        { title: "REASON", key: "reason", cell: (entry) => entry.reason },
        { title: "EXIT", key: "exitCode", cell: (entry) => entry.exitCode },
        { title: "HASH", key: "hash", cell: (entry) => entry.hash },
      ]),
    page: (answer) => pageOf(answer, print),
  });
}

/** Entries are grouped by chain, because their order across chains depends on the clocks of different machines. */
function pageOf({ id, entries }: AuditEntries, print: Printer): string {
  const [first] = entries;
  if (!first) return "";
  const lines = [print.style("bold", `${first.kind} ${id}`)];
  const field = (name: string, value: string): void => {
    if (value !== "") lines.push(`  ${name.padEnd(9)}${escapeText(value)}`);
  };
  // Only the colony's entry and that of the agent that ran it carry the command line.
  const longest = (value: (entry: AuditEntryFact) => string): string => entries.map(value).find((text) => text !== "") ?? "";
  field(
    "command",
    longest((entry) => entry.command),
  );
  field(
    "who",
    [first.caller, first.through && `by ${first.through}`, first.callerFrom && `from ${first.callerFrom}`].filter(Boolean).join(", "),
  );
  field(
    "question",
    longest((entry) => entry.questionId),
  );
  field(
    "target",
    longest((entry) => entry.target),
  );
  const nowMs = Date.now();
  for (const group of byChain(entries)) {
    const [head] = group;
    lines.push("", print.style("bold", escapeText(head?.hostname ?? "colony")));
    for (const entry of group) {
      const marks = [`entry ${entry.entry}`, entry.hash.slice(0, 12)].join("  ");
      lines.push(
        `  ${localTime(entry.at, nowMs)}  ${entry.phase.padEnd(8)} ${escapeText(outcomeText(entry, first.caller))}  ${print.style("dim", marks)}`,
      );
    }
  }
  return `${lines.join("\n")}\n`;
}

// The last entry repeats rule, user and location of the first.
/** The requester is shown above all entries; other users, such as approvers, at their own entry. */
function outcomeText(entry: AuditEntryFact, asker: string): string {
  const { phase, caller, reason, exitCode, rule, runAs, place, durationMs, stdoutBytes, stderrBytes, recording } = entry;
  const hasEnded = phase === "ended";
  // A killed command also has an exit code, but the signal is more useful.
  const isExit = exitCode !== null && reason === "exited";
  return [
    ...(isExit ? [`exit ${exitCode}`] : reason === "" ? [] : [reason]),
    ...(caller === asker || caller === "" ? [] : [`by ${caller}`]),
    ...(rule === "" || hasEnded ? [] : [`rule ${rule}`]),
    ...(runAs === "" || hasEnded ? [] : [`as ${runAs}`]),
    ...(place === "" || hasEnded ? [] : [`in ${place}`]),
    ...(hasEnded && durationMs > 0 ? [formatDurationMs(durationMs)] : []),
    ...(stdoutBytes + stderrBytes > 0 ? [`${formatBytes(stdoutBytes)} out, ${formatBytes(stderrBytes)} err`] : []),
    ...(recording === "" ? [] : [`recording ${recording}`]),
  ].join(", ");
}

/** The colony's entries first, then each agent's, in the order of the answer. */
function byChain(entries: readonly AuditEntryFact[]): AuditEntryFact[][] {
  const groups = new Map<string, AuditEntryFact[]>();
  for (const entry of entries) {
    const key = entry.agentId ?? "";
    groups.set(key, [...(groups.get(key) ?? []), entry]);
  }
  return [...groups.values()];
}
