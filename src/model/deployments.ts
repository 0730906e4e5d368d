/** What the store knows about a service before and after a deployment. */

import type { SparseHistogram } from "../base/latency-histogram.ts";
import type { TrafficRole } from "./red.ts";
import type { RequestSource } from "./summary.ts";

/** Requests of one route in one cell of time. */
export interface RouteCell {
  /** Milliseconds since the start of its period. */
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
  /** Length of the period before, as far as rows reach back. */
  beforeMs: number;
  afterMs: number;
  /** Length of the shortest cell. */
  cellMs: number;
  /** Most requests first. */
  routes: RouteFacts[];
  /** One value per minute, over all processes of the service. */
  cpuCores: { before: number[]; after: number[] };
  /** Minute within its period of each value; absent: unknown. */
  resourceMinutes?: { before: number[]; after: number[] };
  memoryBytes: { before: number[]; after: number[] };
  /** External destinations that the service had never called before. */
  newEgress: string[];
  newErrors: NewErrorPattern[];
}
