/** Input fields shared by many tools, described once for CLI help, the HTTP API and language models. */

import * as z from "zod";
import { type DurationLimits, durationInput } from "./duration-input.ts";

/** Descriptions by field name. MCP explains these once instead of in every tool. */
export const commonInputs = {
  service: "only this service",
  agent: "only this agent (id or host name)",
  since: "how far back to look: 5m, 2h, 7d",
  limit: "maximum number of rows",
  points: "maximum number of points per series",
  peer: "only this peer: a service, an external name or an address",
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

/** How far back to look. At most a year unless `limits` says otherwise. */
export function sinceInput(defaultValue: string, limits: Partial<DurationLimits> = {}) {
  return durationInput({ minMs: 1_000, maxMs: 366 * dayMs, ...limits })
    .prefault(defaultValue)
    .describe(commonInputs.since);
}

/** Maximum number of rows. */
export function limitInput(defaultValue: number, max: number) {
  return z.int().min(1).max(max).default(defaultValue).describe(commonInputs.limit);
}

/** The remote end of a connection. */
export function peerInput() {
  return z.string().min(1).optional().describe(commonInputs.peer);
}

/** Maximum number of points per series. */
export function pointsInput(defaultValue: number, max: number) {
  return z.int().min(0).max(max).default(defaultValue).describe(commonInputs.points);
}
