/** Verifies the chains that a colony keeps: its own, and its copies of the agents' chains. */

import type { ColonyStore } from "../colony/colony-store.ts";
import type { Row } from "../engine/sql-values.ts";
import { audit, auditChainColumns, auditChainRow } from "../signals/audit.ts";
import { ChainCheck, type ChainLink, type ChainReport, chainStart } from "../signals/hash-chain.ts";
import type { ColonyAudit } from "./colony-audit.ts";

/** An agent's chain as far as it was pulled. An agent whose store was recreated has several. */
export interface CopiedChain {
  agentId: string;
  /** The epoch of the agent's store. */
  chainId: string;
  /** It is the chain of the agent's last response. */
  isCurrent: boolean;
  report: ChainReport;
}

/** Verifies the colony's own chain, from its start or from where retention pruned it, to the recorded end. */
export async function verifyOwnChain(store: ColonyStore, own: ColonyAudit): Promise<ChainReport> {
  const database = `"${store.database.name}"`;
  const check = new ChainCheck(chainStart(own.chainId));
  const pruned: ChainLink[] = [];
  let last = 0;
  await store.visit(`SELECT ${auditChainColumns} FROM ${database}.audit.entries ORDER BY seq, rowid`, undefined, (row) => {
    take(check, pruned, row);
    last = Math.max(last, Number(row["seq"]));
  });
  // Entries may be added during the walk, so the end is read afterwards.
  const [kept] = await store.query(`SELECT entry, hash FROM ${database}.audit.chain`);
  const end = { entry: Number(kept?.["entry"] ?? 0), hash: String(kept?.["hash"] ?? "") };
  if (last > end.entry) check.report("added", end.entry + 1, `entries after ${end.entry}, the last one written, were added`);
  return check.finish(pruned, end.entry > last ? await reached(store, last, end) : end);
}

/** The hash that the walk must have reached, in a chain that may have grown since. */
async function reached(store: ColonyStore, last: number, end: ChainLink): Promise<ChainLink> {
  const [next] = await store.query(`SELECT count(*) AS rows FROM "${store.database.name}".audit.entries WHERE seq > ? AND seq <= ?`, [
    last,
    end.entry,
  ]);
  return Number(next?.["rows"] ?? 0) === end.entry - last ? { entry: last, hash: "" } : end;
}

/** The copies of all agents, or of one, oldest chain first. */
export async function verifyCopies(store: ColonyStore, agentId?: string): Promise<CopiedChain[]> {
  const database = `"${store.database.name}"`;
  const sources = await store.query(
    `SELECT source, agent_id, epoch, cursors, last_pull FROM ${database}.internal.sources
     WHERE ($agent IS NULL OR agent_id = $agent) ORDER BY agent_id, first_pull, source`,
    { agent: agentId ?? null },
  );
  const vouched = await prunedCopies(store);
  const left = await leftChains(store);
  const latest = new Map(sources.toSorted(byLastPull).map((row) => [String(row["agent_id"]), Number(row["source"])]));
  const chains: CopiedChain[] = [];
  for (const row of sources) {
    const [agent, chainId, source] = [String(row["agent_id"]), String(row["epoch"]), Number(row["source"])];
    const check = new ChainCheck(chainStart(chainId));
    const pruned = [...(vouched.get(chainId) ?? [])];
    await store.visit(
      `SELECT ${auditChainColumns} FROM ${database}.raw."${audit.name}" WHERE source = ? ORDER BY seq, rowid`,
      [source],
      (entry) => take(check, pruned, entry),
    );
    const expected = { entry: pulledThrough(row), hash: "" };
    const end = left.get(`${agent} ${chainId}`);
    if (end && end.entry > expected.entry)
      check.report(
        "cut",
        expected.entry + 1,
        `the chain ended at entry ${end.entry} when the agent's store was recreated; entries after ${expected.entry} are missing`,
      );
    const report = check.finish(pruned, isPrunedAway(vouched.get(chainId), expected) ? undefined : expected);
    if (report.entries > 0 || expected.entry > 0) chains.push({ agentId: agent, chainId, isCurrent: latest.get(agent) === source, report });
  }
  return chains;
}

/** Hashes of entries in the copy of a chain. */
export async function copiedLinks(store: ColonyStore, chainId: string, entries: readonly number[]): Promise<ChainLink[]> {
  const numbers = entries.filter((entry) => Number.isSafeInteger(entry) && entry > 0);
  if (numbers.length === 0) return [];
  const database = `"${store.database.name}"`;
  const rows = await store.query(
    `SELECT r.entry, r.hash FROM ${database}.raw."${audit.name}" r JOIN ${database}.internal.sources s USING (source)
     WHERE s.epoch = ? AND r.entry IN (${numbers.join(", ")}) ORDER BY r.entry`,
    [chainId],
  );
  return rows.map((row) => ({ entry: Number(row["entry"]), hash: String(row["hash"]) }));
}

/** Hashes of entries in the colony's own chain. */
export async function ownLinks(store: ColonyStore, entries: readonly number[]): Promise<ChainLink[]> {
  const numbers = entries.filter((entry) => Number.isSafeInteger(entry) && entry > 0);
  if (numbers.length === 0) return [];
  const rows = await store.query(
    `SELECT entry, hash FROM "${store.database.name}".audit.entries WHERE entry IN (${numbers.join(", ")}) ORDER BY entry`,
  );
  return rows.map((row) => ({ entry: Number(row["entry"]), hash: String(row["hash"]) }));
}

function take(check: ChainCheck, pruned: ChainLink[], row: Row): void {
  check.add(auditChainRow(row));
  if (row["kind"] === "pruned" && row["target"] === "chain") {
    const link = linkIn(row["details"]);
    if (link) pruned.push(link);
  } else if (row["kind"] === "chain" && row["reason"] === "broken") {
    check.report("cut", Number(row["entry"]), `the agent reported at start: ${problemIn(row["details"])}`);
  }
}

/** Where chains of recreated agent stores ended, by agent and chain. The next chain records it in its first entry. */
async function leftChains(store: ColonyStore): Promise<Map<string, ChainLink>> {
  const database = `"${store.database.name}"`;
  const rows = await store.query(
    `SELECT s.agent_id, r.details FROM ${database}.raw."${audit.name}" r JOIN ${database}.internal.sources s USING (source)
     WHERE r.kind = 'chain' AND r.reason = 'begun-anew' ORDER BY r.seq`,
  );
  const left = new Map<string, ChainLink>();
  for (const row of rows) {
    const before = beforeIn(row["details"]);
    const key = `${String(row["agent_id"])} ${before?.chainId}`;
    if (before && before.entry > (left.get(key)?.entry ?? 0)) left.set(key, before);
  }
  return left;
}

/** How far this colony pruned the copy of each chain, according to its own chain. */
async function prunedCopies(store: ColonyStore): Promise<Map<string, ChainLink[]>> {
  const rows = await store.query(
    `SELECT place, arg_max(details, seq) AS details FROM "${store.database.name}".audit.entries
     WHERE kind = 'pruned' AND target = 'copy' GROUP BY place`,
  );
  return new Map(
    rows.map((row) => {
      const link = linkIn(row["details"]);
      return [String(row["place"]), link ? [link] : []];
    }),
  );
}

function isPrunedAway(pruned: readonly ChainLink[] | undefined, expected: ChainLink): boolean {
  return pruned?.some(({ entry }) => entry >= expected.entry) ?? false;
}

function pulledThrough(source: Row): number {
  const cursors = JSON.parse(String(source["cursors"])) as Record<string, { seq?: number } | undefined>;
  return cursors[audit.name]?.seq ?? 0;
}

function byLastPull(a: Row, b: Row): number {
  return Number(a["last_pull"]) - Number(b["last_pull"]) || Number(a["source"]) - Number(b["source"]);
}

function linkIn(text: unknown): ChainLink | undefined {
  try {
    const value = JSON.parse(String(text)) as Partial<ChainLink> | null;
    return typeof value?.entry === "number" && typeof value.hash === "string" ? { entry: value.entry, hash: value.hash } : undefined;
  } catch {
    // Not written by Coral.
    return undefined;
  }
}

function beforeIn(text: unknown): (ChainLink & { chainId: string }) | undefined {
  try {
    const { before } = JSON.parse(String(text)) as { before?: { chainId?: unknown } };
    const link = linkIn(JSON.stringify(before));
    return link && typeof before?.chainId === "string" ? { ...link, chainId: before.chainId } : undefined;
  } catch {
    // Not written by Coral.
    return undefined;
  }
}

function problemIn(text: unknown): string {
  try {
    return String((JSON.parse(String(text)) as { problem?: unknown }).problem);
  } catch {
    // Not written by Coral.
    return "details are not valid JSON";
  }
}
