/** What the store knows of a service before and after a deployment. */

import type { SparseHistogram } from "../base/latency-histogram.ts";
import type { TrafficRole } from "./red.ts";
import type { RequestSource } from "./summary.ts";

/** Requests of one route in one short part of the time. */
export interface RouteCell {
  /** Milliseconds since the start of its side. */
  atMs: number;
  requests: number;
  errors: number;
  histogram: SparseHistogram;
}

export interface RouteFacts {
  role: TrafficRole;
  method: string;
  route: string;
  before: RouteCell[];
  after: RouteCell[];
}

/** A pattern of error records that did not occur before. */
export interface NewErrorPattern {
  template: string;
  severity: string;
  records: number;
}

export interface BuildFacts {
  source: RequestSource | "none";
  /** As far as rows go back. */
  beforeMs: number;
  afterMs: number;
  /** Length of the shortest part that a `RouteCell` covers. */
  cellMs: number;
  /** Most requests first. */
  routes: RouteFacts[];
  /** One value a minute, of all processes of the service. */
  cpuCores: { before: number[]; after: number[] };
  /** Which minute of its side each of these values is of; absent: unknown. */
  resourceMinutes?: { before: number[]; after: number[] };
  memoryBytes: { before: number[]; after: number[] };
  /** External destinations that the service never called before. */
  newEgress: string[];
  newErrors: NewErrorPattern[];
}
