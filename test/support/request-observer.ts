/** The BPF programs with everything that assembles requests from their events, without the traffic process around it. */

import { createLogger } from "../../src/base/log.ts";
import type { PidNamespace } from "../../src/host/index.ts";
import type { LossKind, RequestGroup, TrafficSettings, TrafficState, UnseenRequests } from "../../src/traffic/core/messages.ts";
import { type KernelHooks, openKernelHooks } from "../../src/traffic/kernel/kernel-hooks.ts";
import { type OpenedParts, openTrafficParts } from "../../src/traffic/traffic-parts.ts";
import type { WindowDraft } from "../../src/traffic/traffic-runtime.ts";
import { requestsObject } from "./bpf-skip-reason.ts";
import { testTrafficSettings } from "./traffic-settings.ts";
import { waitFor } from "./wait-for.ts";

export interface ObserverOptions {
  kind?: KernelHooks["kind"];
  settings?: Partial<TrafficSettings>;
  /** Whose processes are in scope. Default: that of this process. */
  namespace?: PidNamespace;
}

export class RequestObserver implements AsyncDisposable {
  readonly requests: RequestGroup[] = [];
  readonly losses = new Map<LossKind, number>();
  readonly unseen: UnseenRequests[] = [];
  readonly hooks: KernelHooks;
  readonly #parts: OpenedParts;

  private constructor(hooks: KernelHooks, parts: OpenedParts) {
    this.hooks = hooks;
    this.#parts = parts;
  }

  static async open({ kind = "sockets", settings: changed = {}, namespace }: ObserverOptions = {}): Promise<RequestObserver> {
    const own = { ...testTrafficSettings, ...changed };
    const hooks = await openKernelHooks({
      settings: own,
      ownPids: [],
      kinds: [kind],
      objectPath: requestsObject,
      ...(namespace && { namespace }),
    });
    const log = createLogger("test", "error", () => {});
    return new RequestObserver(hooks, openTrafficParts({ hooks, settings: own, report: () => {}, log }));
  }

  /** Collects new events. A response counts as complete when its last byte is older than a second, or when `isOver` is set. */
  look(isOver = false): void {
    this.hooks.object.ring("events").drain(this.#parts.onRecord);
    const draft: WindowDraft = { requests: [], losses: new Map(), names: [], peerNames: [] };
    const nowNs = process.hrtime.bigint() + (isOver ? 2_000_000_000n : 0n);
    this.#parts.sweep(nowNs);
    this.#parts.collect(draft, nowNs);
    this.requests.push(...draft.requests);
    this.unseen.push(...(draft.unseen ?? []));
    for (const [loss, count] of draft.losses) this.losses.set(loss, (this.losses.get(loss) ?? 0) + count);
  }

  /** Files with attached TLS probes, or the reason why there are none. */
  tls(): TrafficState["tls"] {
    return this.#parts.tls();
  }

  /** Request counts by `GET /a 200`, for one side of one port. */
  counts(port: number, role: RequestGroup["role"]): Record<string, number> {
    const counts: Record<string, number> = {};
    for (const group of this.requests) {
      if (group.serverPort !== port || group.role !== role) continue;
      const key = [group.method, group.route, group.status].filter((word) => word !== "").join(" ");
      counts[key] = (counts[key] ?? 0) + group.count;
    }
    return counts;
  }

  of(port: number, role: RequestGroup["role"]): RequestGroup[] {
    return this.requests.filter((group) => group.serverPort === port && group.role === role);
  }

  /** Polls until both sides of a port show this many requests. */
  async waitForCount(port: number, count: number, roles: readonly RequestGroup["role"][] = ["server", "client"]): Promise<void> {
    const seen = (role: RequestGroup["role"]) => this.of(port, role).reduce((sum, group) => sum + group.count, 0);
    await waitFor(
      `${count} requests of port ${port}`,
      () => {
        this.look(true);
        return roles.every((role) => seen(role) >= count);
      },
      { details: () => JSON.stringify(roles.map((role) => this.counts(port, role))) },
    );
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#parts[Symbol.asyncDispose]();
    await this.hooks[Symbol.asyncDispose]();
  }
}
