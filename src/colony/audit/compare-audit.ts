/**
 * An agent's chain against the colony's copy of it, and the colony's own chain against what the agent remembers of it. Whoever can write one of the
 * two files can make that one look whole; both must agree.
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
  /** Absent when nothing was pulled of this agent. */
  copy: CopiedChain | undefined;
  signal: AbortSignal;
}

export interface AuditComparison {
  /** The chain at the agent, with what it says itself and what the comparison has found. */
  chain: Pick<AuditChain, "chainId" | "entries" | "firstEntry" | "lastEntry" | "head" | "problems" | "moreProblems">;
  /** Of the colony's own chain. */
  ownProblems: ChainProblem[];
  notes: string[];
}

type Problem = AuditChain["problems"][number];

const walkTimeoutMs = 60_000;
const askTimeoutMs = 10_000;
/** Hashes asked for at once while the first difference is looked for. */
const probes = 64;
const maxProblems = 50;

export async function compareWithAgent(options: CompareAuditOptions): Promise<AuditComparison> {
  const { client, copy, signal } = options;
  const entries = copy ? probesOf(copy) : [];
  const said = await client.verifyAudit({ walk: true, entries: entries.map(BigInt) }, { signal, timeoutMs: walkTimeoutMs });
  const problems: Problem[] = said.problems
    .slice(0, maxProblems)
    .map(({ kind, entry, message }) => ({ kind: kind.slice(0, 32), entry: Number(entry), message: message.slice(0, 500) }));
  const notes: string[] = [];
  const chainId = said.head?.chainId ?? "";
  if (copy && copy.chainId !== chainId) notes.push("its store was begun anew just now; verify again after the next pull");
  else if (copy) problems.push(...(await compareCopy(options, copy, said, entries)));
  const own = await compareOwn(options, said.colonyLinks);
  notes.push(...own.notes);
  return {
    chain: {
      chainId,
      entries: Number(said.entries),
      firstEntry: Number(said.firstEntry),
      lastEntry: Number(said.head?.entry ?? 0n),
      head: said.head?.hash ?? "",
      problems,
      moreProblems: Number(said.moreProblems),
    },
    ownProblems: own.problems,
    notes,
  };
}

/** Of a copy that fits together the last entry stands for all; where it does not, what was pulled before may differ from what came after. */
function probesOf({ report }: CopiedChain): number[] {
  const { problems, head } = report;
  return [...new Set([head.entry, ...problems.flatMap(({ entry }) => [entry - 1, entry])])].filter((entry) => entry > 0);
}

async function compareCopy(
  options: CompareAuditOptions,
  copy: CopiedChain,
  said: VerifyAuditResponse,
  probed: readonly number[],
): Promise<Problem[]> {
  const { head, entries } = copy.report;
  if (entries === 0) return [];
  const agentLast = Number(said.head?.entry ?? 0n);
  if (agentLast < head.entry) {
    const message = `it ends with entry ${agentLast}, and the colony has entry ${head.entry} of it: entries were removed at the end, or an older copy of the file was put back`;
    return [{ kind: "cut", entry: agentLast + 1, message }];
  }
  const theirs = new Map(said.links.map(({ entry, hash }) => [Number(entry), hash]));
  const ours = await copiedLinks(options.store, copy.chainId, probed);
  // What is not there any more was taken by retention, or is among the problems that the agent has found itself.
  const different = ours.find(({ entry, hash }) => theirs.has(entry) && theirs.get(entry) !== hash);
  if (!different) return [];
  const first = await firstDifference(options, copy, Number(said.firstEntry), different.entry);
  const where = first === undefined ? `at entry ${different.entry} or before` : `from entry ${first} on`;
  return [
    { kind: "rewritten", entry: first ?? different.entry, message: `it says something else than what the colony has pulled, ${where}` },
  ];
}

/** Two chains that differ once differ for good: the first place is found by asking for few. */
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
    const theirs = await client.verifyAudit({ entries: entries.map(BigInt) }, { signal, timeoutMs: askTimeoutMs });
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
  { store, chain }: CompareAuditOptions,
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
    if (found !== undefined) problems.push({ kind: "rewritten", entry, message: `entry ${entry} says something else than it did` });
    else if (entry > chain.head.entry)
      problems.push({ kind: "cut", entry, message: `entry ${entry} was written, and the chain ends before it` });
  }
  const others = new Set(links.filter((link) => link.chainId !== chain.chainId).map((link) => link.chainId));
  const notes =
    others.size > 0 ? ["it remembers another audit of this colony: the colony's store was begun anew, or the agent has moved"] : [];
  return { problems: problems.slice(-1), notes };
}
