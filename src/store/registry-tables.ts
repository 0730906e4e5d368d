import { CoralError } from "../base/errors.ts";
import type { ColonyStore } from "./colony-store.ts";

/** What an agent says of itself when it registers. */
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

/** Times are microseconds since 1970. */
export interface AgentRecord extends AgentRegistration {
  firstSeenAt: number;
  lastSeenAt: number;
  registeredAt: number;
  revokedAt: number | null;
  /** Age of the newest pulled row when it was stored; null before the first pull. */
  pullLagMs: number | null;
}

export interface AgentTouch {
  agentId: string;
  lastSeenAt: number;
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
  /** Hex SHA-256 of the secret; the secret itself is never stored. */
  secretSha256: string;
  permission: string;
  createdAt: number;
  expiresAt: number;
  /** Null: any number of times. */
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

const unbuilt = (): Promise<never> =>
  Promise.reject(new CoralError({ code: "unsupported", message: "Cannot use the registry: not built yet" }));

/** Inserts or renews; `firstSeenAt` and `revokedAt` of a known agent stay. */
export function upsertAgent(_store: ColonyStore, _agent: AgentRegistration, _nowUs: number): Promise<void> {
  return unbuilt();
}
/** Last contact of many agents in one statement. Unknown ids are ignored. */
export function touchAgents(_store: ColonyStore, _touches: readonly AgentTouch[]): Promise<void> {
  return unbuilt();
}
export function listAgents(_store: ColonyStore): Promise<AgentRecord[]> {
  return unbuilt();
}
export function findAgent(_store: ColonyStore, _agentId: string): Promise<AgentRecord | undefined> {
  return unbuilt();
}
export function revokeAgent(_store: ColonyStore, _agentId: string, _nowUs: number): Promise<boolean> {
  return unbuilt();
}
export function recordConflict(_store: ColonyStore, _conflict: AgentConflict): Promise<void> {
  return unbuilt();
}
export function listConflicts(_store: ColonyStore): Promise<AgentConflict[]> {
  return unbuilt();
}
export function insertToken(_store: ColonyStore, _token: TokenRecord): Promise<void> {
  return unbuilt();
}
/** Checks and takes one use in one transaction. A wrong secret is `unknown` and takes nothing. */
export function useToken(_store: ColonyStore, _id: string, _secretSha256: string, _nowUs: number): Promise<TokenUse> {
  return unbuilt();
}
export function listTokens(_store: ColonyStore): Promise<TokenRecord[]> {
  return unbuilt();
}
/** False when there is no such token. */
export function revokeToken(_store: ColonyStore, _id: string, _nowUs: number): Promise<boolean> {
  return unbuilt();
}
export function recordEvent(_store: ColonyStore, _event: EventRecord): Promise<void> {
  return unbuilt();
}
/** Newest first, at most `limit` (default 1,000). */
export function listEvents(_store: ColonyStore, _sinceUs: number, _limit?: number): Promise<EventRecord[]> {
  return unbuilt();
}
