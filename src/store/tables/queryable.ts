/** What the colony's queries need from a store, and how they read its rows. */

import type { Database, Transaction } from "../engine/database.ts";

/** Unqualified names refer to the published views. */
export interface Queryable {
  query(sql: string, parameters?: readonly QueryParameter[] | Readonly<Record<string, QueryParameter>>): Promise<Record<string, unknown>[]>;
}

/** A store that can pass very many rows, each in the same object. */
export interface VisitableStore extends Queryable {
  visit(sql: string, parameters: Readonly<Record<string, QueryParameter>> | undefined, visit: (row: QueryRow) => void): Promise<void>;
}

/** A store whose own tables may be changed, in one transaction at a time. */
export interface WritableStore extends Queryable {
  readonly database: Database;
  write<T>(work: (transaction: Transaction) => Promise<T>): Promise<T>;
}

export type QueryParameter = string | number | bigint | boolean | null;
export type QueryRow = Record<string, unknown>;

export function numberIn(row: QueryRow, name: string): number {
  return numberOrNullIn(row, name) ?? 0;
}

/** Also null for NaN and infinities, which JSON cannot represent. */
export function numberOrNullIn(row: QueryRow, name: string): number | null {
  const value = row[name];
  if (value === null || value === undefined) return null;
  const number = Number(value);
  return Number.isFinite(number) ? number : null;
}

export function textIn(row: QueryRow, name: string): string {
  return textOrNullIn(row, name) ?? "";
}

export function textOrNullIn(row: QueryRow, name: string): string | null {
  const value = row[name];
  return typeof value === "string" ? value : null;
}

/** A list of texts; empty for null. */
export function textsIn(row: QueryRow, name: string): string[] {
  const value = row[name];
  return Array.isArray(value) ? value.map(String) : [];
}

export function booleanIn(row: QueryRow, name: string): boolean {
  return row[name] === true;
}

/** A TIMESTAMP, which rows hold as microseconds since 1970. */
export function isoTimeIn(row: QueryRow, name: string): string {
  return new Date(Math.floor(numberIn(row, name) / 1_000)).toISOString();
}

export function isoTimeOrNullIn(row: QueryRow, name: string): string | null {
  return row[name] === null || row[name] === undefined ? null : isoTimeIn(row, name);
}

/** `?, ?, ?` */
export function placeholders(values: readonly unknown[]): string {
  return values.map(() => "?").join(", ");
}

/** Groups rows by agent and keeps their order. */
export function groupByAgent(rows: readonly QueryRow[]): Map<string, QueryRow[]> {
  const groups = new Map<string, QueryRow[]>();
  for (const row of rows) {
    const agentId = textIn(row, "agent_id");
    const group = groups.get(agentId);
    if (group) group.push(row);
    else groups.set(agentId, [row]);
  }
  return groups;
}
