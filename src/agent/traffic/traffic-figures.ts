/** What watching the traffic has brought, missed and cost, since the agent started and in the newest window. */

import type { LossKind, TrafficWindow } from "../../traffic/index.ts";

export interface TrafficCostNow {
  /** Share of one core that Coral's programs took in the kernel; null where the kernel does not keep it. */
  bpfCpuRatio: number | null;
  /** Of the traffic process, share of one core. */
  processCpuRatio: number;
  processRssBytes: number;
  /** Locked memory of kernel tables. */
  mapBytes: number;
  requestsPerSecond: number;
}

export class TrafficFigures {
  /** By kind, since the start. */
  readonly losses = new Map<LossKind, number>();
  requests = 0;
  windows = 0;
  bpfNs = 0;
  cpuNs = 0;
  /** Of the newest window; null before the first. */
  now: TrafficCostNow | null = null;

  add(window: TrafficWindow): void {
    for (const { loss, count } of window.losses) this.addLoss(loss, count);
    const { cost } = window;
    // A window of nothing but lost seconds was made by the supervisor: there was no process to cost anything.
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
