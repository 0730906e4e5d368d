/** The hooks in the kernel with all that makes requests of what they see, but without the process around it. */

import { createLogger } from "../../src/base/log.ts";
import { type KernelHooks, openKernelHooks } from "../../src/traffic/kernel-hooks.ts";
import type { LossKind, RequestGroup, TrafficSettings, TrafficState } from "../../src/traffic/messages.ts";
import { type OpenedParts, openTrafficParts } from "../../src/traffic/traffic-parts.ts";
import type { WindowDraft } from "../../src/traffic/traffic-runtime.ts";
import { testTrafficSettings } from "./traffic-settings.ts";
import { waitFor } from "./wait-for.ts";
import { requestsObject } from "./why-no-bpf.ts";

export interface ObserverOptions {
  kind?: KernelHooks["kind"];
  settings?: Partial<TrafficSettings>;
}

export class RequestObserver implements AsyncDisposable {
  readonly requests: RequestGroup[] = [];
  readonly losses = new Map<LossKind, number>();
  readonly hooks: KernelHooks;
  readonly #parts: OpenedParts;

  private constructor(hooks: KernelHooks, parts: OpenedParts) {
    this.hooks = hooks;
    this.#parts = parts;
  }

  static async open({ kind = "sockets", settings: changed = {} }: ObserverOptions = {}): Promise<RequestObserver> {
    const own = { ...testTrafficSettings, ...changed };
    const hooks = await openKernelHooks({ settings: own, ownPids: [], kinds: [kind], objectPath: requestsObject });
    const log = createLogger("test", "error", () => {});
    return new RequestObserver(hooks, openTrafficParts({ hooks, settings: own, report: () => {}, log }));
  }

  /** Adds what was seen since the last look. Answers count as ended when their last byte is older than a second, or `isOver` says they are. */
  look(isOver = false): void {
    this.hooks.object.ring("events").drain(this.#parts.onRecord);
    const draft: WindowDraft = { requests: [], losses: new Map(), names: [], peerNames: [] };
    const nowNs = process.hrtime.bigint() + (isOver ? 2_000_000_000n : 0n);
    this.#parts.sweep(nowNs);
    this.#parts.collect(draft, nowNs);
    this.requests.push(...draft.requests);
    for (const [loss, count] of draft.losses) this.losses.set(loss, (this.losses.get(loss) ?? 0) + count);
  }

  /** Files whose TLS is read, or why not. */
  tls(): TrafficState["tls"] {
    return this.#parts.tls();
  }

  /** `GET /a 200` and how often, of one side of one port. */
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

  /** Looks until so many requests of both sides of a port were seen. */
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
