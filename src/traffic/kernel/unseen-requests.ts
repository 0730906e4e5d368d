/** Processes that exchange requests which hooks cannot follow: `unseen_requests` of probes/requests/unseen.h. */

import type { BpfMap } from "../../bpf/index.ts";
import { processStateOf } from "../../host/index.ts";
import type { UnseenReason, UnseenRequests } from "../core/messages.ts";

/** UNSEEN_* of probes/requests/unseen.h. */
const reasons: Readonly<Record<number, UnseenReason>> = { 1: "unix-socket", 2: "io-uring" };
/** The kernel looks at a sample of payloads on unix sockets, so that a process with few requests is not noticed in every window. */
const unixKeptNs = 300_000_000_000n;
const maxProcesses = 1_024;

interface Noticed {
  pid: number;
  reason: UnseenReason;
  count: number;
  lastNs: bigint;
}

export interface UnseenProcessesOptions {
  map: Pick<BpfMap, "takeAll">;
  /** Default: by /proc. */
  isRunning?: (pid: number) => boolean;
}

export class UnseenProcesses {
  readonly #map: Pick<BpfMap, "takeAll">;
  readonly #isRunning: (pid: number) => boolean;
  readonly #noticed = new Map<string, Noticed>();

  constructor({ map, isRunning }: UnseenProcessesOptions) {
    this.#map = map;
    this.#isRunning = isRunning ?? ((pid) => processStateOf(pid) !== undefined);
  }

  /**
   * The processes of a window. Those with io_uring are reported for as long as they run: the kernel ignores their connections after a few payloads that
   * it cannot read.
   */
  take(nowNs: bigint): UnseenRequests[] {
    for (const one of this.#noticed.values()) one.count = 0;
    this.#map.takeAll((keys, keyAt, values, valueAt) => {
      const pid = keys.readUInt32LE(keyAt);
      const reason = reasons[keys.readUInt32LE(keyAt + 4)];
      if (reason === undefined) return;
      const key = `${pid} ${reason}`;
      const known = this.#noticed.get(key);
      const count = Number(values.readBigUInt64LE(valueAt));
      if (known === undefined && this.#noticed.size >= maxProcesses) return;
      this.#noticed.set(key, { pid, reason, count: (known?.count ?? 0) + count, lastNs: nowNs });
    });
    for (const [key, { pid, reason, count, lastNs }] of this.#noticed) {
      const isOld = reason === "unix-socket" && nowNs - lastNs > unixKeptNs;
      // One that was noticed just now may have ended since.
      if (count === 0 && (isOld || !this.#isRunning(pid))) this.#noticed.delete(key);
    }
    return [...this.#noticed.values()].map(({ pid, reason, count }) => ({ pid, reason, detail: "", count: Math.max(1, count) }));
  }
}
