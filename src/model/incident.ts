/** Incidents: entry services that breach an objective, and the findings. Times are milliseconds since 1970. */

import type { SparseHistogram } from "../base/latency-histogram.ts";
import type { EvidenceFact, TimeRange } from "./diagnosis.ts";

/** `merged`: turned out to be part of another incident. */
export const incidentStates = ["open", "closed", "merged"] as const;
export type IncidentState = (typeof incidentStates)[number];

/** `down`: it does not run, does not respond, or its health check fails. */
export type SymptomMeasure = "latency" | "errors" | "down";

/** A breached objective. Latencies in microseconds, failures as a share. */
export interface IncidentSymptom {
  /** Id of the service. */
  service: string;
  /** `GET /buy`; empty: all requests of the service. */
  route: string;
  measure: SymptomMeasure;
  /** Whether a person declared the objective; otherwise it was derived from a baseline. */
  isDeclared: boolean;
  usual: number | null;
  /** Values at or below this count as recovered. Frozen when the incident opens, so that a fault never becomes the baseline. */
  limit: number | null;
  worst: number | null;
  now: number | null;
  message: string;
  startedMs: number;
  lastBadMs: number;
  /** Since when it has been within its limit; null while it is not. */
  okSinceMs: number | null;
}

export interface IncidentCause {
  /** Id of the service, or the name of an external dependency. */
  service: string;
  kind: string;
  pointer: string;
  /** 0..1. */
  confidence: number;
  summary: string;
  /** From the entry service to the cause. */
  chain: string[];
  evidence: { id: string; statement: string }[];
  change: string | null;
}

export interface IncidentMoment {
  atMs: number;
  kind: "started" | "opened" | "symptom" | "cause" | "recovered" | "returned" | "closed" | "merged";
  text: string;
}

/** A change of a service of the incident around its start. */
export interface IncidentChange {
  atMs: number;
  kind: string;
  service: string;
  message: string;
}

export interface Incident {
  /** Counts up from 1; shown as `inc-7`. */
  number: number;
  state: IncidentState;
  severity: "critical" | "warning";
  startedMs: number;
  openedMs: number;
  updatedMs: number;
  /** When it was last bad; null while it still is. */
  endedMs: number | null;
  closedMs: number | null;
  /** The first one names the incident. */
  symptoms: IncidentSymptom[];
  cause: IncidentCause | null;
  ruledOut: { service: string; reason: string }[];
  next: { command: string; why: string }[];
  changes: IncidentChange[];
  evidence: EvidenceFact[];
  /** Oldest first. */
  timeline: IncidentMoment[];
  /** Time of the last successful diagnosis; null if there was none. */
  diagnosedMs: number | null;
  /** Number of the incident that this one is part of. */
  mergedInto: number | null;
}

export interface IncidentsRequest {
  state?: IncidentState;
  /** Only incidents open within this time, back from now. */
  sinceMs: number;
  limit: number;
}

/** An objective of a service as declared by a person; null: not declared. */
export interface Objective {
  service: string;
  /** Empty: all requests of the service. */
  route: string;
  p95Us: number | null;
  errorRatio: number | null;
  setBy: string;
  setMs: number;
}

export interface RequestTotalsRequest {
  services: readonly string[];
  ranges: readonly TimeRange[];
}

/** Served requests of one kind in one of the requested time ranges. */
export interface RequestTotals {
  /** Index of the requested time range. */
  range: number;
  service: string;
  protocol: string;
  method: string;
  route: string;
  requests: number;
  errors: number;
  durations: SparseHistogram;
}

export const incidentId = (number: number): string => `inc-${number}`;

/** Parses `inc-7` or `7`; null for anything else. */
export function incidentNumber(text: string): number | null {
  const found = /^(?:inc-)?(\d{1,9})$/i.exec(text.trim());
  return found ? Number(found[1]) : null;
}
