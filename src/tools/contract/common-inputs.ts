/** Input fields that many tools take, each described once for the CLI's help, the HTTP API and language models. */

import * as z from "zod";
import { type DurationLimits, durationInput } from "./duration-input.ts";

/** By field name. MCP explains these once instead of at every tool. */
export const commonInputs = {
  service: "only this service",
  agent: "only this agent (id or host name)",
  since: "how far back to look: 5m, 2h, 7d",
  limit: "maximum number of rows",
  points: "maximum number of points per series",
  peer: "only with this peer: a service, an outside name or an address",
  coral: "include Coral's own traffic",
} as const;

const dayMs = 86_400_000;

/** An optional name of a service. */
export function serviceInput() {
  return z.string().min(1).optional().describe(commonInputs.service);
}

/** An optional agent, by id or host name. */
export function agentInput() {
  return z.string().min(1).optional().describe(commonInputs.agent);
}

/** How far back, `defaultValue` unless given; a year at most unless `limits` says otherwise. */
export function sinceInput(defaultValue: string, limits: Partial<DurationLimits> = {}) {
  return durationInput({ minMs: 1_000, maxMs: 366 * dayMs, ...limits })
    .prefault(defaultValue)
    .describe(commonInputs.since);
}

/** How many rows, `defaultValue` unless given. */
export function limitInput(defaultValue: number, max: number) {
  return z.int().min(1).max(max).default(defaultValue).describe(commonInputs.limit);
}

/** The other end of a connection. */
export function peerInput() {
  return z.string().min(1).optional().describe(commonInputs.peer);
}

/** How many points a series has, `defaultValue` unless given. */
export function pointsInput(defaultValue: number, max: number) {
  return z.int().min(0).max(max).default(defaultValue).describe(commonInputs.points);
}
