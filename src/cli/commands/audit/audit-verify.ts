import { escapeText } from "../../../base/escape-text.ts";
import type { AuditChain, AuditVerification } from "../../../tools/index.ts";
import type { Printer } from "../../output/printer.ts";
import { tableOf } from "../../output/table.ts";
import { plural } from "../../output/values.ts";
import { agentNames } from "../../run/agent-names.ts";
import { callAgent, connectColony } from "../../run/connection.ts";
import type { Invocation } from "../../run/invocation.ts";
import { showAnswer } from "../../run/show-answer.ts";
import { toolInput } from "../../run/show-tool.ts";

/** `coral audit verify`: exits with 1 when a chain is broken. */
export async function run(invocation: Invocation): Promise<void> {
  const { options, print } = invocation;
  const verify = options.flag("local") ? verifyLocally(invocation) : await verifyAtColony(invocation);
  await showAnswer(invocation, verify, {
    exitCode: ({ isWhole }) => (isWhole ? 0 : 1),
    table: ({ chains }) =>
      tableOf(chains, [
        { title: "CHAIN OF", key: "agentId", cell: (chain) => chain.agentId ?? "colony" },
        { title: "WHERE", key: "where", cell: (chain) => chain.where },
        { title: "ENTRIES", key: "entries", cell: (chain) => chain.entries },
        { title: "FIRST", key: "firstEntry", cell: (chain) => chain.firstEntry },
        { title: "LAST", key: "lastEntry", cell: (chain) => chain.lastEntry },
        { title: "HEAD", key: "head", cell: (chain) => chain.head },
        { title: "PROBLEMS", key: "problems", cell: (chain) => chain.problems.length + chain.moreProblems },
      ]),
    page: (answer) => pageOf(answer, print),
  });
}

async function verifyAtColony(invocation: Invocation): Promise<() => Promise<AuditVerification>> {
  const input = toolInput(invocation, "coral_verify_audit");
  const colony = await connectColony(invocation);
  return () => colony.call("coral_verify_audit", input);
}

/** Verifies the agent's chain by itself. Without the colony's copy, a consistently rewritten chain cannot be detected; a note says so. */
function verifyLocally(invocation: Invocation): () => Promise<AuditVerification> {
  return async () => {
    const answer = await callAgent<AuditVerification>(invocation, { method: "POST", path: "/v1/audit/verify" });
    for (const note of answer.notes) invocation.print.warning(escapeText(note));
    return answer;
  };
}

/** The line for --expect is printed only for an intact audit: a broken one must not become the reference. */
function pageOf({ isWhole, chains }: AuditVerification, print: Printer): string {
  const nameOf = agentNames(chains);
  const lines = chains.flatMap((chain) => chainLines(chain, nameOf, print));
  const broken = chains.filter(({ problems }) => problems.length > 0).length;
  const verdict = isWhole
    ? print.style("green", `Audit intact: ${plural(chains.length, "chain")} verified`)
    : print.style("red", `Audit broken: problems in ${broken} of ${plural(chains.length, "chain")}`);
  // An attacker who controls the colony can rewrite its whole chain; only a copy of the newest hash, kept elsewhere, reveals that.
  const own = chains.find(({ agentId, lastEntry }) => agentId === null && lastEntry > 0);
  const place = own ? [print.style("dim", `Keep this elsewhere, for --expect: ${own.chainId}:${own.lastEntry}:${own.head}`)] : [];
  return `${[...lines, "", verdict, ...(isWhole ? place : [])].join("\n")}\n`;
}

/** One line per chain: mark, owner, range of entries, first 16 digits of the newest hash; then its problems. */
function chainLines(
  { agentId, where, entries, firstEntry, lastEntry, head, problems, moreProblems }: AuditChain,
  nameOf: (agentId: string) => string,
  print: Printer,
): string[] {
  const name = agentId === null ? "colony" : `${nameOf(agentId)}, ${where === "agent" ? "at the agent" : "the colony's copy"}`;
  const mark = problems.length === 0 ? print.style("green", "✓") : print.style("red", "✗");
  const range = entries === 0 ? "no entries" : `entries ${firstEntry} to ${lastEntry}`;
  return [
    `${mark} ${escapeText(name)}  ${print.style("dim", `${range}  ${head.slice(0, 16)}`)}`,
    ...problems.map(({ message }) => `    ${print.style("red", escapeText(message))}`),
    ...(moreProblems > 0 ? [`    ${print.style("red", `and ${moreProblems} more`)}`] : []),
  ];
}
