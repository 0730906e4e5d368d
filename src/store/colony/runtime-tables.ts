/** Where agents run, as last reported, and its history. All times are microseconds since 1970. */

import { capabilityOf, type RuntimeFacts } from "../../model/runtime-facts.ts";
import type { Row, SqlParameter, SqlValue } from "../engine/sql-values.ts";
import type { ColonyStore } from "./colony-store.ts";

export interface RuntimeRecord {
  agentId: string;
  facts: RuntimeFacts;
  /** Contradictions in the report. */
  problems: string[];
  updatedAt: number;
}

export interface RuntimeChange {
  agentId: string;
  changedAt: number;
  runtimeType: string;
  /** Empty without a mode. */
  sidecarMode: string;
  criType: string;
  criVersion: string;
  /** registration, upgrade, redeployment, refresh, config, requested, capabilities */
  reason: string;
  /** In words. */
  changes: string;
}

/** Entries per agent. */
const historyMax = 200;

/** Updates the agent's row and adds a history entry, in one transaction. */
export async function storeRuntime(store: ColonyStore, record: RuntimeRecord, change: { reason: string; changes: string }): Promise<void> {
  const { agentId, facts, problems, updatedAt } = record;
  const cri = facts.containerRuntime;
  const kinds: [string, SqlParameter][] = [
    ["runtime_type", facts.runtimeType],
    ["sidecar_mode", facts.sidecarMode || null],
    ["cri_type", cri?.type ?? null],
    ["cri_version", cri?.version ?? null],
    ...["connect", "exec", "shell", "run"].map((name): [string, SqlParameter] => [
      `can_${name}`,
      capabilityOf(facts, name)?.available ?? false,
    ]),
  ];
  const rest: [string, SqlParameter][] = [
    ["platform_os", facts.platform.os],
    ["os_version", facts.platform.osVersion],
    ["problems", JSON.stringify(problems)],
    ["context", JSON.stringify(facts)],
  ];
  const all = [...kinds, ...rest];
  const detectedAt = Date.parse(facts.detectedAt) * 1_000;
  await store.write(async (transaction) => {
    const renewed = await transaction.run(
      `UPDATE registry.agent_runtime SET ${all.map(([name]) => `${name} = ?`).join(", ")}, detected_at = make_timestamp(?), updated_at = make_timestamp(?)
       WHERE agent_id = ?`,
      [...all.map(([, value]) => value), detectedAt, updatedAt, agentId],
    );
    if (renewed === 0) {
      await transaction.run(
        `INSERT INTO registry.agent_runtime (agent_id, ${all.map(([name]) => name).join(", ")}, detected_at, updated_at)
         VALUES (?, ${all.map(() => "?").join(", ")}, make_timestamp(?), make_timestamp(?))`,
        [agentId, ...all.map(([, value]) => value), detectedAt, updatedAt],
      );
    }
    await transaction.run(
      `INSERT INTO registry.agent_runtime_history (agent_id, ${kinds.map(([name]) => name).join(", ")}, change_reason, changes, changed_at)
       VALUES (?, ${kinds.map(() => "?").join(", ")}, ?, ?, make_timestamp(?))`,
      [agentId, ...kinds.map(([, value]) => value), change.reason, change.changes, updatedAt],
    );
    // A new agent has no history to prune, and most agents register at once after a roll-out.
    if (renewed === 0) return;
    await transaction.run(
      `DELETE FROM registry.agent_runtime_history WHERE agent_id = ? AND changed_at < (
         SELECT min(changed_at) FROM (SELECT changed_at FROM registry.agent_runtime_history WHERE agent_id = ? ORDER BY changed_at DESC LIMIT ${historyMax}))`,
      [agentId, agentId],
    );
  });
}

/** For an agent that stopped reporting its runtime. Its history stays. */
export async function forgetRuntime(store: ColonyStore, agentId: string): Promise<void> {
  await store.write((transaction) => transaction.run("DELETE FROM registry.agent_runtime WHERE agent_id = ?", [agentId]));
}

export async function loadRuntimes(store: ColonyStore): Promise<RuntimeRecord[]> {
  const rows = await store.query("SELECT agent_id, context, problems, updated_at FROM registry.agent_runtime");
  return rows.map((row) => ({
    agentId: text(row["agent_id"]),
    facts: JSON.parse(text(row["context"])) as RuntimeFacts,
    problems: JSON.parse(text(row["problems"])) as string[],
    updatedAt: Number(row["updated_at"]),
  }));
}

/** Newest first. */
export async function listRuntimeHistory(store: ColonyStore, agentId: string, limit: number): Promise<RuntimeChange[]> {
  const rows = await store.query(
    "SELECT * FROM registry.agent_runtime_history WHERE agent_id = ? ORDER BY changed_at DESC, rowid DESC LIMIT ?",
    [agentId, limit],
  );
  return rows.map(changeOf);
}

function changeOf(row: Row): RuntimeChange {
  return {
    agentId: text(row["agent_id"]),
    changedAt: Number(row["changed_at"]),
    runtimeType: text(row["runtime_type"]),
    sidecarMode: text(row["sidecar_mode"]),
    criType: text(row["cri_type"]),
    criVersion: text(row["cri_version"]),
    reason: text(row["change_reason"]),
    changes: text(row["changes"]),
  };
}

function text(value: SqlValue | undefined): string {
  return typeof value === "string" ? value : "";
}
