/** Requests, losses and costs of traffic observation: totals since the start, and the newest window. */

import type { LossKind, TrafficWindow } from "../../traffic/index.ts";

/** Costs in the newest window. */
export interface TrafficCostNow {
  /** CPU time of BPF programs as a share of one core; null where the kernel does not measure it. */
  bpfCpuRatio: number | null;
  /** CPU time of the traffic process as a share of one core. */
  processCpuRatio: number;
  processRssBytes: number;
  /** Memory of BPF maps. */
  mapBytes: number;
  requestsPerSecond: number;
}

/** For `coral agent status` and /metrics; the stored rows do not use it. */
export class TrafficTotals {
  /** By kind, since the start. */
  readonly losses = new Map<LossKind, number>();
  requests = 0;
  windows = 0;
  bpfNs = 0;
  cpuNs = 0;
  /** The newest window; null before the first. */
  now: TrafficCostNow | null = null;

  add(window: TrafficWindow): void {
    for (const { loss, count } of window.losses) this.addLoss(loss, count);
    const { cost } = window;
    // The supervisor made this window to report lost seconds: there was no process and no cost.
    if (cost.cpuNs === 0 && cost.rssBytes === 0) return;
    const lengthNs = Math.max(1, Number(window.toNs - window.fromNs));
    const requests = window.requests.reduce((sum, { count }) => sum + count, 0);
    this.windows++;
    this.requests += requests;
    this.bpfNs += cost.bpfNs ?? 0;
    this.cpuNs += cost.cpuNs;
    this.now = {
      bpfCpuRatio: cost.bpfNs === null ? null : cost.bpfNs / lengthNs,
      processCpuRatio: cost.cpuNs / lengthNs,
      processRssBytes: cost.rssBytes,
      mapBytes: cost.mapBytes,
      requestsPerSecond: (requests * 1e9) / lengthNs,
    };
  }

  addLoss(loss: LossKind, count: number): void {
    if (count > 0) this.losses.set(loss, (this.losses.get(loss) ?? 0) + count);
  }
}
