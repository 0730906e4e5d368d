/** Incidents: entry services that breach an objective, with what was found out about it. Times are milliseconds since 1970. */

import type { SparseHistogram } from "../base/latency-histogram.ts";
import type { EvidenceFact, TimeRange } from "./diagnosis.ts";

/** `merged`: turned out to be part of another incident. */
export const incidentStates = ["open", "closed", "merged"] as const;
export type IncidentState = (typeof incidentStates)[number];

/** `down`: it does not run, responds to nothing, or its check fails. */
export type SymptomMeasure = "latency" | "errors" | "down";

/** One objective that is breached. Latencies in microseconds, failures as a share. */
export interface IncidentSymptom {
  /** Id of the service. */
  service: string;
  /** `GET /buy`; empty: all requests of the service. */
  route: string;
  measure: SymptomMeasure;
  /** Whether a person declared the objective; otherwise it was learnt. */
  isDeclared: boolean;
  usual: number | null;
  /** Back at or below this is repaired; frozen when the incident opens, so that a fault never becomes usual. */
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

/** What happened to services of the incident around its start. */
export interface IncidentChange {
  atMs: number;
  kind: string;
  service: string;
  message: string;
}

export interface Incident {
  /** Counts up from 1; people read `inc-7`. */
  number: number;
  state: IncidentState;
  severity: "critical" | "warning";
  startedMs: number;
  openedMs: number;
  updatedMs: number;
  /** When it was last bad; null while it is. */
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
  /** Of the last diagnosis; null: none has succeeded. */
  diagnosedMs: number | null;
  /** Number of the incident that it is part of. */
  mergedInto: number | null;
}

export interface IncidentsRequest {
  state?: IncidentState;
  /** Only what was open within this time, back from now. */
  sinceMs: number;
  limit: number;
}

/** What a person promises of a service; null: not declared. */
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

/** Served requests of one kind in one of the asked times. */
export interface RequestTotals {
  /** Place of the time among those asked. */
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

/** `inc-7` or `7`; null when it is neither. */
export function incidentNumber(text: string): number | null {
  const found = /^(?:inc-)?(\d{1,9})$/i.exec(text.trim());
  return found ? Number(found[1]) : null;
}
