/** Processes whose outgoing connections were too short for a scan, as reported by the kernel. They count as services while they run. */

import type { DiscoveryScan } from "../../host/index.ts";
import type { ProcessTimes } from "../naming/process-times.ts";
import type { KernelBatch } from "./kernel-connections.ts";

/** Processes kept between two scans. */
const maxCallers = 4_096;

/** Pids are compared with the start time of their process, because the kernel reuses them. */
export class RecentCallers {
  readonly #times: ProcessTimes;
  /** Start of the process by pid. */
  readonly #running = new Map<number, number>();
  /** Start of a connection by pid, CLOCK_MONOTONIC: processes that the next scan may know. */
  readonly #reported = new Map<number, bigint>();

  constructor(times: ProcessTimes) {
    this.#times = times;
  }

  add({ events, peers }: KernelBatch): void {
    for (const { kind, role, pid, startedNs } of events) if (kind !== "failed" && role === "client") this.#report(pid, startedNs);
    for (const { role, pid, connections, lastNs } of peers) if (role === "client" && connections > 0) this.#report(pid, lastNs);
  }

  /** The ones that still run. Call with each scan. */
  running(scan: Pick<DiscoveryScan, "processOf">): ReadonlySet<number> {
    for (const [pid, beganNs] of this.#reported) {
      const entry = scan.processOf(pid);
      const startedNs = entry ? this.#times.startedNs(entry.startTicks) : null;
      if (entry && (startedNs === null || beganNs === 0n || beganNs >= startedNs)) this.#running.set(pid, entry.startTicks);
    }
    this.#reported.clear();
    for (const [pid, startTicks] of this.#running)
      if (scan.processOf(pid)?.startTicks !== startTicks || this.#running.size > maxCallers) this.#running.delete(pid);
    return new Set(this.#running.keys());
  }

  #report(pid: number, beganNs: bigint): void {
    if (pid !== 0 && (this.#reported.has(pid) || this.#reported.size < maxCallers)) this.#reported.set(pid, beganNs);
  }
}
