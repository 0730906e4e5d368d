/** The backend of the audit tools: entries, verification of chains, recordings, approvals. */

import { createClient } from "@connectrpc/connect";
import { CoralError } from "../../base/errors.ts";
import type { AuditRecord } from "../../model/audit.ts";
import { AgentService } from "../../proto/coral/agent/v1/agent_pb.ts";
import {
  type ColonyAudit,
  copiedLinks,
  ownLinks,
  queryAudit,
  queryAuditEntries,
  verifyCopies,
  verifyOwnChain,
} from "../../store/audit/index.ts";
import { type ColonyStore } from "../../store/colony/index.ts";
import { type ChainReport } from "../../store/signals/index.ts";
import type { AuditChain, AuditVerification, ColonyBackend, ExpectedLink, ToolCallContext } from "../../tools/index.ts";
import { fromConnectError } from "../../transport/index.ts";
import type { AgentRegistry } from "../registry/agent-registry.ts";
import { compareWithAgent } from "./compare-audit.ts";
import type { PendingApprovals } from "./pending-approvals.ts";

export interface AuditBackendOptions {
  /** Resolves when all entries recorded so far can be queried. */
  settled: () => Promise<void>;
  store: ColonyStore;
  chain: ColonyAudit;
  /** Id of this colony, which agents store with the links of its chain. */
  colonyId: string;
  registry: Pick<AgentRegistry, "find" | "entries">;
  approvals: PendingApprovals;
  wallMs: () => number;
}

type AuditBackend = Pick<ColonyBackend, "audit" | "auditEntries" | "verifyAudit" | "recording" | "approvals" | "decideApproval">;

export function createAuditBackend(options: AuditBackendOptions): AuditBackend {
  const { store, approvals, wallMs } = options;
  return {
    audit: async ({ sinceMs, ...request }) => {
      await options.settled();
      const records = await queryAudit(store, { ...request, sinceUs: (wallMs() - sinceMs) * 1_000 });
      return records.map((record) => withHostname(record, options.registry));
    },
    auditEntries: async ({ id, limit }) => {
      await options.settled();
      const entries = await queryAuditEntries(store, id, limit);
      return entries.map((entry) => withHostname(entry, options.registry));
    },
    verifyAudit: (request, context) => verify(options, request, context),
    recording: (request, context) => readRecording(options, request, context),
    approvals: () => approvals.list(),
    decideApproval: (decision, context) => approvals.decide(decision, context),
  };
}

function withHostname<Record extends AuditRecord>(
  record: Record,
  registry: AuditBackendOptions["registry"],
): Record & { hostname: string | null } {
  const { agentId } = record;
  return { ...record, hostname: agentId === null ? null : (registry.find(agentId)?.record.hostname ?? agentId) };
}

async function verify(
  options: AuditBackendOptions,
  { agentIds, expected = [] }: Parameters<ColonyBackend["verifyAudit"]>[0],
  context: ToolCallContext,
): Promise<AuditVerification> {
  const { store, chain, registry } = options;
  const notes: string[] = [];
  await options.settled();
  const own = await verifyOwnChain(store, chain);
  const copies =
    agentIds === undefined ? await verifyCopies(store) : (await Promise.all(agentIds.map((id) => verifyCopies(store, id)))).flat();
  const hostnameOf = (agentId: string): string => registry.find(agentId)?.record.hostname ?? agentId;
  const ownChain = chainOf(own, { agentId: null, hostname: null, chainId: chain.chainId, where: "colony" });
  const chains: AuditChain[] = [];
  for (const copy of copies) {
    const about = { agentId: copy.agentId, hostname: hostnameOf(copy.agentId), chainId: copy.chainId };
    chains.push(chainOf(copy.report, { ...about, where: "colony" }));
    if (!copy.isCurrent)
      notes.push(`${about.hostname} has a new store since chain ${copy.chainId.slice(0, 8)}: only the colony still has that chain`);
  }
  const requested = new Set(agentIds ?? [...registry.entries()].map(({ record }) => record.agentId));
  const current = new Map(copies.filter((copy) => copy.isCurrent).map((copy) => [copy.agentId, copy]));
  await inParallel([...requested], 16, async (agentId) => {
    const entry = registry.find(agentId);
    if (!entry || entry.record.revokedAt) return;
    const tunnel = entry.session?.tunnel;
    if (!tunnel) {
      notes.push(`${hostnameOf(agentId)} is not connected: only the colony's copy of its audit was checked`);
      return;
    }
    try {
      const client = createClient(AgentService, tunnel.transport);
      const found = await compareWithAgent({
        client,
        store,
        chain,
        colonyId: options.colonyId,
        copy: current.get(agentId),
        signal: context.signal,
      });
      chains.push({ ...found.chain, agentId, hostname: hostnameOf(agentId), where: "agent" });
      for (const problem of found.ownProblems)
        ownChain.problems.push({ ...problem, message: `${problem.message} (according to ${hostnameOf(agentId)})` });
      notes.push(...found.notes.map((note) => `${hostnameOf(agentId)}: ${note}`));
    } catch (error) {
      const { code, message } = fromConnectError(error);
      notes.push(
        `${hostnameOf(agentId)} ${code === "unsupported" ? "has no audit: its version is too old; update the agent" : `did not respond: ${message}`}`,
      );
    }
  });
  notes.push(...(await checkExpected(options, expected, [ownChain, ...chains])));
  const all = [...(agentIds === undefined || ownChain.problems.length > 0 ? [ownChain] : []), ...chains.sort(byAgent)];
  return { isWhole: all.every(({ problems }) => problems.length === 0), chains: all, notes: notes.sort().slice(0, 200) };
}

/** Checks that entries which the caller kept elsewhere are still in their chains. */
async function checkExpected(
  { store, chain }: AuditBackendOptions,
  expected: readonly ExpectedLink[],
  chains: readonly AuditChain[],
): Promise<string[]> {
  const notes: string[] = [];
  for (const { chainId, entry, hash } of expected) {
    const links = chainId === chain.chainId ? await ownLinks(store, [entry]) : await copiedLinks(store, chainId, [entry]);
    const found = chains.find((candidate) => candidate.chainId === chainId && candidate.where === "colony");
    const [link] = links;
    if (link?.hash === hash) continue;
    if (!found) notes.push(`chain ${chainId} is unknown: cannot check its entry ${entry}`);
    else if (link) found.problems.push({ kind: "rewritten", entry, message: `entry ${entry} differs from the expected hash` });
    else if (entry > found.lastEntry)
      found.problems.push({ kind: "cut", entry, message: `expected entry ${entry} is missing: the chain ends before it` });
    else notes.push(`cannot check entry ${entry} of chain ${chainId}: retention has removed it`);
  }
  return notes;
}

function chainOf(report: ChainReport, about: Pick<AuditChain, "agentId" | "hostname" | "chainId" | "where">): AuditChain {
  const { entries, firstEntry, head, problems, moreProblems } = report;
  return { ...about, entries, firstEntry, lastEntry: head.entry, head: head.hash, problems: [...problems], moreProblems };
}

function byAgent(a: AuditChain, b: AuditChain): number {
  return (
    (a.hostname ?? "").localeCompare(b.hostname ?? "") || (a.agentId ?? "").localeCompare(b.agentId ?? "") || a.where.localeCompare(b.where)
  );
}

async function inParallel<T>(items: readonly T[], atOnce: number, work: (item: T) => Promise<void>): Promise<void> {
  const left = [...items];
  const worker = async (): Promise<void> => {
    for (let item = left.shift(); item !== undefined; item = left.shift()) await work(item);
  };
  await Promise.all(Array.from({ length: Math.min(atOnce, items.length) }, worker));
}

async function* readRecording(
  { registry }: AuditBackendOptions,
  { agentId, recording }: { agentId: string; recording: string },
  context: ToolCallContext,
): AsyncGenerator<Uint8Array> {
  const entry = registry.find(agentId);
  const tunnel = entry?.session?.tunnel;
  if (!tunnel) {
    const name = entry?.record.hostname ?? agentId;
    throw new CoralError({
      code: "unavailable",
      message: `Cannot replay "${recording}": agent ${name}, which stores it, is not connected; see coral agent list`,
    });
  }
  try {
    const parts = createClient(AgentService, tunnel.transport).readRecording({ recording }, { signal: context.signal });
    for await (const { data } of parts) yield data;
  } catch (error) {
    throw fromConnectError(error);
  }
}
