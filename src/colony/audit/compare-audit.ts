/**
 * Compares an agent's chain with the colony's copy of it, and the colony's own chain with the links that the agent keeps of it. An attacker who can
 * write one of the two files can make that file consistent; both must agree.
 */

import type { Client } from "@connectrpc/connect";
import type { AgentService } from "../../proto/coral/agent/v1/agent_pb.ts";
import type { AuditLink, VerifyAuditResponse } from "../../proto/coral/agent/v1/audit_pb.ts";
import { type ColonyAudit, type CopiedChain, copiedLinks, ownLinks } from "../../store/audit/index.ts";
import { type ColonyStore } from "../../store/colony/index.ts";
import { type ChainProblem } from "../../store/signals/index.ts";
import type { AuditChain } from "../../tools/index.ts";

export interface CompareAuditOptions {
  client: Pick<Client<typeof AgentService>, "verifyAudit">;
  store: ColonyStore;
  chain: ColonyAudit;
  colonyId: string;
  /** Absent when nothing was pulled from this agent. */
  copy: CopiedChain | undefined;
  signal: AbortSignal;
}

export interface AuditComparison {
  /** The chain at the agent, with the problems that it reports itself and those that the comparison found. */
  chain: Pick<AuditChain, "chainId" | "entries" | "firstEntry" | "lastEntry" | "head" | "problems" | "moreProblems">;
  /** Problems of the colony's own chain. */
  ownProblems: ChainProblem[];
  notes: string[];
}

type Problem = AuditChain["problems"][number];

const walkTimeoutMs = 60_000;
const linksTimeoutMs = 10_000;
/** Hashes requested per step of the search for the first difference. */
const probes = 64;
const maxProblems = 50;
const maxLostChains = 5;

export async function compareWithAgent(options: CompareAuditOptions): Promise<AuditComparison> {
  const { client, copy, signal } = options;
  const entries = copy ? probesOf(copy) : [];
  const answer = await client.verifyAudit({ walk: true, entries: entries.map(BigInt) }, { signal, timeoutMs: walkTimeoutMs });
  const problems: Problem[] = answer.problems
    .slice(0, maxProblems)
    .map(({ kind, entry, message }) => ({ kind: kind.slice(0, 32), entry: Number(entry), message: message.slice(0, 500) }));
  const notes: string[] = [];
  const chainId = answer.head?.chainId ?? "";
  if (copy && copy.chainId !== chainId) notes.push("its store was just recreated; verify again after the next pull");
  else if (copy) problems.push(...(await compareCopy(options, copy, answer, entries)));
  const own = await compareOwn(options, answer.colonyLinks);
  notes.push(...own.notes);
  return {
    chain: {
      chainId,
      entries: Number(answer.entries),
      firstEntry: Number(answer.firstEntry),
      lastEntry: Number(answer.head?.entry ?? 0n),
      head: answer.head?.hash ?? "",
      problems,
      moreProblems: Number(answer.moreProblems),
    },
    ownProblems: own.problems,
    notes,
  };
}

/** The last entry stands for a whole consistent copy; around each problem, the entries on both sides are compared too. */
function probesOf({ report }: CopiedChain): number[] {
  const { problems, head } = report;
  return [...new Set([head.entry, ...problems.flatMap(({ entry }) => [entry - 1, entry])])].filter((entry) => entry > 0);
}

async function compareCopy(
  options: CompareAuditOptions,
  copy: CopiedChain,
  answer: VerifyAuditResponse,
  probed: readonly number[],
): Promise<Problem[]> {
  const { head, entries } = copy.report;
  if (entries === 0) return [];
  const agentLast = Number(answer.head?.entry ?? 0n);
  if (agentLast < head.entry) {
    const message = `the chain ends at entry ${agentLast}, but the colony has entry ${head.entry}: entries were removed at the end, or an older copy of the file was restored`;
    return [{ kind: "cut", entry: agentLast + 1, message }];
  }
  const theirs = new Map(answer.links.map(({ entry, hash }) => [Number(entry), hash]));
  const ours = await copiedLinks(options.store, copy.chainId, probed);
  // Missing entries were removed by retention, or are among the problems that the agent reports.
  const different = ours.find(({ entry, hash }) => theirs.has(entry) && theirs.get(entry) !== hash);
  if (!different) return [];
  const first = await firstDifference(options, copy, Number(answer.firstEntry), different.entry);
  const where = first === undefined ? `at entry ${different.entry} or earlier` : `from entry ${first} on`;
  return [{ kind: "rewritten", entry: first ?? different.entry, message: `the chain differs from what the colony has pulled, ${where}` }];
}

/** Chains that differ at one entry differ at every later one, so a search finds the first with few requests. */
async function firstDifference(
  { client, store, signal }: CompareAuditOptions,
  copy: CopiedChain,
  agentFirst: number,
  known: number,
): Promise<number | undefined> {
  // Equal before `low`, different at `high`.
  let low = Math.max(copy.report.firstEntry, agentFirst, 1);
  let high = known;
  while (low < high) {
    const step = Math.max(1, Math.ceil((high - low) / probes));
    const entries: number[] = [];
    for (let entry = low; entry < high; entry += step) entries.push(entry);
    const theirs = await client.verifyAudit({ entries: entries.map(BigInt) }, { signal, timeoutMs: linksTimeoutMs });
    const ours = new Map((await copiedLinks(store, copy.chainId, entries)).map(({ entry, hash }) => [entry, hash]));
    const their = new Map(theirs.links.map(({ entry, hash }) => [Number(entry), hash]));
    const different = entries.find((entry) => ours.get(entry) !== their.get(entry));
    const equal = entries.filter((entry) => different === undefined || entry < different).at(-1);
    if (different === undefined && step === 1) return high;
    const [nextLow, nextHigh]: [number, number] = [equal === undefined ? low : equal + 1, different ?? high];
    if (nextLow === low && nextHigh === high) return undefined;
    [low, high] = [nextLow, nextHigh];
  }
  return high;
}

async function compareOwn(
  { store, chain, colonyId }: CompareAuditOptions,
  links: readonly AuditLink[],
): Promise<{ problems: ChainProblem[]; notes: string[] }> {
  const remembered = links.filter((link) => link.chainId === chain.chainId).map(({ entry, hash }) => ({ entry: Number(entry), hash }));
  const ours = new Map(
    (
      await ownLinks(
        store,
        remembered.map(({ entry }) => entry),
      )
    ).map(({ entry, hash }) => [entry, hash]),
  );
  const problems: ChainProblem[] = [];
  for (const { entry, hash } of remembered) {
    const found = ours.get(entry);
    if (found === hash) continue;
    if (found !== undefined) problems.push({ kind: "rewritten", entry, message: `entry ${entry} was changed after it was written` });
    else if (entry > chain.head.entry)
      problems.push({ kind: "cut", entry, message: `entry ${entry} is missing: the chain ends before it` });
  }
  const others = links.filter((link) => link.chainId !== chain.chainId);
  const notes = others.some((link) => link.colonyId === "")
    ? [
        "it has links of another audit chain, recorded before links named their colony: the colony's store was recreated, or the agent has moved",
      ]
    : [];
  return { problems: [...problems.slice(-1), ...lostChains(others.filter((link) => link.colonyId === colonyId))], notes };
}

/** Earlier chains of this colony that the agent knows. */
function lostChains(links: readonly AuditLink[]): ChainProblem[] {
  const ends = new Map<string, number>();
  for (const { chainId, entry } of links) ends.set(chainId, Math.max(ends.get(chainId) ?? 0, Number(entry)));
  return [...ends].slice(0, maxLostChains).map(([chainId, entry]) => ({
    kind: "cut" as const,
    entry,
    message: `chain ${chainId.slice(0, 64)}, which this colony had up to entry ${entry}, is gone: the colony's store was removed or replaced`,
  }));
}
