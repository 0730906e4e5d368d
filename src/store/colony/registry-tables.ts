/** The colony's small tables: agents, conflicts, tokens, events. All times are microseconds since 1970. */

import { timingSafeEqual } from "node:crypto";
import type { Row, SqlParameter, SqlValue } from "../engine/sql-values.ts";
import type { ColonyStore } from "./colony-store.ts";

/** What an agent reports about itself when it registers. */
export interface AgentRegistration {
  agentId: string;
  hostname: string;
  machineId: string;
  bootId: string;
  os: string;
  kernel: string;
  arch: string;
  version: string;
  protocolVersion: number;
  epoch: string;
  labels: Record<string, string>;
  capabilities: { name: string; available: boolean; reason: string }[];
}

export interface AgentRecord extends AgentRegistration {
  firstSeenAt: number;
  lastSeenAt: number;
  registeredAt: number;
  revokedAt: number | null;
  /** How far the pull lags behind this agent; null before the first pull. */
  pullLagMs: number | null;
}

export interface AgentTouch {
  agentId: string;
  lastSeenAt: number;
  /** Absent: unchanged. */
  pullLagMs?: number;
}

export interface AgentConflict {
  agentId: string;
  hostA: string;
  hostB: string;
  noticedAt: number;
}

export interface TokenRecord {
  id: string;
  kind: "join" | "user";
  /** SHA-256 of the secret in hex; the secret itself is never stored. */
  secretSha256: string;
  permission: string;
  createdAt: number;
  expiresAt: number;
  /** Null: unlimited. */
  usesLeft: number | null;
  revokedAt: number | null;
  note: string;
}

export type TokenUse =
  | { kind: "accepted"; token: TokenRecord }
  | { kind: "refused"; reason: "unknown" | "revoked" | "expired" | "used-up" };

export interface EventRecord {
  at: number;
  /** Noun-verb: `agent-joined`, `store-recovered`. */
  kind: string;
  agentId: string | null;
  message: string;
  details: Record<string, unknown>;
}

/** Inserts or updates; keeps `firstSeenAt` and `revokedAt` of a known agent. */
export async function upsertAgent(store: ColonyStore, agent: AgentRegistration, nowUs: number): Promise<void> {
  const facts: [string, SqlParameter][] = [
    ["hostname", agent.hostname],
    ["machine_id", agent.machineId],
    ["boot_id", agent.bootId],
    ["os", agent.os],
    ["kernel", agent.kernel],
    ["arch", agent.arch],
    ["version", agent.version],
    ["protocol_version", agent.protocolVersion],
    ["epoch", agent.epoch],
    ["labels", JSON.stringify(agent.labels)],
    ["capabilities", JSON.stringify(agent.capabilities)],
  ];
  const names = facts.map(([name]) => name);
  const renewed = [...names, "last_seen_at", "registered_at"].map((name) => `${name} = excluded.${name}`).join(", ");
  const times = "make_timestamp(?), make_timestamp(?), make_timestamp(?)";
  await store.write((transaction) =>
    transaction.run(
      `INSERT INTO registry.agents (agent_id, ${names.join(", ")}, first_seen_at, last_seen_at, registered_at)
       VALUES (?, ${names.map(() => "?").join(", ")}, ${times}) ON CONFLICT (agent_id) DO UPDATE SET ${renewed}`,
      [agent.agentId, ...facts.map(([, value]) => value), nowUs, nowUs, nowUs],
    ),
  );
}

const touchesPerStatement = 500;

/** Updates the last contact of many agents in one transaction. Ignores unknown ids; last contact never goes back. */
export async function touchAgents(store: ColonyStore, touches: readonly AgentTouch[]): Promise<void> {
  if (touches.length === 0) return;
  await store.write(async (transaction) => {
    for (let start = 0; start < touches.length; start += touchesPerStatement) {
      const part = touches.slice(start, start + touchesPerStatement);
      await transaction.run(
        `UPDATE registry.agents SET last_seen_at = greatest(last_seen_at, make_timestamp(touched.seen_at)), pull_lag_ms = coalesce(touched.lag, pull_lag_ms)
         FROM (VALUES ${part.map(() => "(?::VARCHAR, ?::BIGINT, ?::DOUBLE)").join(", ")}) touched(id, seen_at, lag) WHERE agent_id = touched.id`,
        part.flatMap(({ agentId, lastSeenAt, pullLagMs }): SqlParameter[] => [agentId, Math.floor(lastSeenAt), pullLagMs ?? null]),
      );
    }
  });
}

/** Sorted by hostname, then id. */
export async function listAgents(store: ColonyStore): Promise<AgentRecord[]> {
  return (await store.query("SELECT * FROM registry.agents ORDER BY hostname, agent_id")).map(agentOf);
}

/** Returns false for an unknown agent. Revoking again keeps the first time. */
export async function revokeAgent(store: ColonyStore, agentId: string, nowUs: number): Promise<boolean> {
  return await store.write(async (transaction) => {
    const sql = "UPDATE registry.agents SET revoked_at = coalesce(revoked_at, make_timestamp(?)) WHERE agent_id = ?";
    return (await transaction.run(sql, [nowUs, agentId])) > 0;
  });
}

/** Two hosts use one agent id. */
export async function recordConflict(store: ColonyStore, conflict: AgentConflict): Promise<void> {
  const { agentId, hostA, hostB, noticedAt } = conflict;
  await store.write((transaction) =>
    transaction.run("INSERT INTO registry.agent_conflicts VALUES (?, ?, ?, make_timestamp(?))", [agentId, hostA, hostB, noticedAt]),
  );
}

/** Newest first, at most 1,000. */
export async function listConflicts(store: ColonyStore): Promise<AgentConflict[]> {
  const rows = await store.query("SELECT * FROM registry.agent_conflicts ORDER BY noticed_at DESC LIMIT 1000");
  return rows.map((row) => ({
    agentId: text(row["agent_id"]),
    hostA: text(row["host_a"]),
    hostB: text(row["host_b"]),
    noticedAt: Number(row["noticed_at"]),
  }));
}

/** Fails for an existing id. */
export async function insertToken(store: ColonyStore, token: TokenRecord): Promise<void> {
  await store.write((transaction) =>
    transaction.run("INSERT INTO registry.tokens VALUES (?, ?, ?, ?, make_timestamp(?), make_timestamp(?), ?, make_timestamp(?), ?)", [
      token.id,
      token.kind,
      token.secretSha256,
      token.permission,
      token.createdAt,
      token.expiresAt,
      token.usesLeft,
      token.revokedAt,
      token.note,
    ]),
  );
}

/**
 * Checks the token and takes one use, in one transaction. A wrong secret gives `unknown` and takes none. `isRepeated`: the use was already
 * taken, so a used-up token is accepted.
 */
export async function useToken(store: ColonyStore, id: string, secretSha256: string, nowUs: number, isRepeated = false): Promise<TokenUse> {
  return await store.write(async (transaction): Promise<TokenUse> => {
    const [row] = await transaction.query("SELECT * FROM registry.tokens WHERE id = ?", [id]);
    const token = row && tokenOf(row);
    if (!token || !sameText(token.secretSha256, secretSha256)) return { kind: "refused", reason: "unknown" };
    if (token.revokedAt !== null) return { kind: "refused", reason: "revoked" };
    if (token.expiresAt <= nowUs) return { kind: "refused", reason: "expired" };
    if (token.usesLeft === null || isRepeated) return { kind: "accepted", token };
    if (token.usesLeft <= 0) return { kind: "refused", reason: "used-up" };
    await transaction.run("UPDATE registry.tokens SET uses_left = uses_left - 1 WHERE id = ?", [id]);
    return { kind: "accepted", token: { ...token, usesLeft: token.usesLeft - 1 } };
  });
}

/** Newest first. */
export async function listTokens(store: ColonyStore): Promise<TokenRecord[]> {
  return (await store.query("SELECT * FROM registry.tokens ORDER BY created_at DESC, id")).map(tokenOf);
}

/** Returns false for an unknown token. Revoking again keeps the first time. */
export async function revokeToken(store: ColonyStore, id: string, nowUs: number): Promise<boolean> {
  return await store.write(async (transaction) => {
    const sql = "UPDATE registry.tokens SET revoked_at = coalesce(revoked_at, make_timestamp(?)) WHERE id = ?";
    return (await transaction.run(sql, [nowUs, id])) > 0;
  });
}

export async function recordEvent(store: Pick<ColonyStore, "write">, event: EventRecord): Promise<void> {
  const { at, kind, agentId, message, details } = event;
  await store.write((transaction) =>
    transaction.run("INSERT INTO registry.events VALUES (make_timestamp(?), ?, ?, ?, ?)", [
      at,
      kind,
      agentId,
      message,
      JSON.stringify(details),
    ]),
  );
}

/** Newest first, at most `limit`. */
export async function listEvents(store: ColonyStore, sinceUs: number, limit = 1_000): Promise<EventRecord[]> {
  const rows = await store.query(
    "SELECT * FROM registry.events WHERE occurred_at >= make_timestamp(?) ORDER BY occurred_at DESC, rowid DESC LIMIT ?",
    [sinceUs, limit],
  );
  return rows.map((row) => ({
    at: Number(row["occurred_at"]),
    kind: text(row["kind"]),
    agentId: row["agent_id"] === null ? null : text(row["agent_id"]),
    message: text(row["message"]),
    details: JSON.parse(text(row["details"])) as Record<string, unknown>,
  }));
}

function agentOf(row: Row): AgentRecord {
  return {
    agentId: text(row["agent_id"]),
    hostname: text(row["hostname"]),
    machineId: text(row["machine_id"]),
    bootId: text(row["boot_id"]),
    os: text(row["os"]),
    kernel: text(row["kernel"]),
    arch: text(row["arch"]),
    version: text(row["version"]),
    protocolVersion: Number(row["protocol_version"]),
    epoch: text(row["epoch"]),
    labels: JSON.parse(text(row["labels"])) as Record<string, string>,
    capabilities: JSON.parse(text(row["capabilities"])) as AgentRegistration["capabilities"],
    firstSeenAt: Number(row["first_seen_at"]),
    lastSeenAt: Number(row["last_seen_at"]),
    registeredAt: Number(row["registered_at"]),
    revokedAt: numberOrNull(row["revoked_at"]),
    pullLagMs: numberOrNull(row["pull_lag_ms"]),
  };
}

function tokenOf(row: Row): TokenRecord {
  return {
    id: text(row["id"]),
    kind: text(row["kind"]) as TokenRecord["kind"],
    secretSha256: text(row["secret_sha256"]),
    permission: text(row["permission"]),
    createdAt: Number(row["created_at"]),
    expiresAt: Number(row["expires_at"]),
    usesLeft: numberOrNull(row["uses_left"]),
    revokedAt: numberOrNull(row["revoked_at"]),
    note: text(row["note"]),
  };
}

function text(value: SqlValue | undefined): string {
  return typeof value === "string" ? value : "";
}

function numberOrNull(value: SqlValue | undefined): number | null {
  return value === null || value === undefined ? null : Number(value);
}

function sameText(a: string, b: string): boolean {
  const [left, right] = [Buffer.from(a), Buffer.from(b)];
  return left.length === right.length && timingSafeEqual(left, right);
}
