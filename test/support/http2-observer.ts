/** The BPF programs with the HTTP/2 decoder, without the rest of the traffic process. */

import { setTimeout as sleep } from "node:timers/promises";
import type { TrafficRole } from "../../src/traffic/core/messages.ts";
import type { FinishedRequest } from "../../src/traffic/core/protocol-decoder.ts";
import { type KernelHooks, openKernelHooks } from "../../src/traffic/kernel/kernel-hooks.ts";
import { PayloadRecordView, recordKinds } from "../../src/traffic/kernel/payload-records.ts";
import { createHttp2Decoder } from "../../src/traffic/protocols/http/http2-stream.ts";
import { RequestGroups } from "../../src/traffic/requests/request-groups.ts";
import { PayloadStreams } from "../../src/traffic/streams/payload-streams.ts";
import { requestsObject } from "./bpf-skip-reason.ts";
import { testTrafficSettings } from "./traffic-settings.ts";
import { waitFor } from "./wait-for.ts";

export interface SeenRequest extends FinishedRequest {
  pid: number;
  role: TrafficRole;
}

export class Http2Observer implements AsyncDisposable {
  readonly requests: SeenRequest[] = [];
  readonly #losses = new Map<number, Record<string, number>>();
  readonly #hooks: KernelHooks;
  readonly #streams: PayloadStreams;
  readonly #record = new PayloadRecordView();
  readonly #timer: NodeJS.Timeout;

  private constructor(hooks: KernelHooks) {
    this.#hooks = hooks;
    this.#streams = new PayloadStreams({
      groups: new RequestGroups(),
      decoders: { http2: createHttp2Decoder },
      recognise: () => null,
      onLoss: (loss, count) => {
        // Losses are counted while a record is read, so they belong to its process.
        const losses = this.#losses.get(this.#record.pid) ?? {};
        losses[loss] = (losses[loss] ?? 0) + count;
        this.#losses.set(this.#record.pid, losses);
      },
      onRequest: ({ pid, role }, request) => this.requests.push({ ...request, pid, role }),
    });
    const ring = hooks.object.ring("events");
    this.#timer = setInterval(() => {
      ring.drain((view, offset, length, bytes) => this.#onRecord(view, offset, length, bytes));
    }, 20);
  }

  static async open(kind: KernelHooks["kind"] = "sockets"): Promise<Http2Observer> {
    const hooks = await openKernelHooks({ settings: testTrafficSettings, ownPids: [], kinds: [kind], objectPath: requestsObject });
    return new Http2Observer(hooks);
  }

  #onRecord(view: DataView, offset: number, length: number, bytes: Buffer): void {
    const kind = view.getUint8(offset);
    if (kind === recordKinds.learn || !this.#record.read(view, offset, length, bytes)) return;
    if (kind === recordKinds.closed) this.#streams.onClose(this.#record.connectionId, this.#record.atNs);
    else if (this.#record.protocol === "http2") this.#streams.onPayload(this.#record);
  }

  total(pid: number): number {
    return this.requests.reduce((sum, request) => sum + (request.pid === pid ? 1 : 0), 0);
  }

  /** Losses on connections of these processes; other programs on this host may have losses, too. */
  losses(...pids: readonly number[]): Record<string, number>[] {
    return [...this.#losses].filter(([pid]) => pids.includes(pid)).map(([, losses]) => losses);
  }

  /** Request counts by protocol, method, route and status. */
  counts(pid: number, role: TrafficRole): Record<string, number> {
    const counts: Record<string, number> = {};
    for (const request of this.requests) {
      if (request.pid !== pid || request.role !== role) continue;
      const key = `${request.protocol} ${request.method} ${request.route} ${request.status}${request.isError ? " error" : ""}`;
      counts[key] = (counts[key] ?? 0) + 1;
    }
    return counts;
  }

  /** Waits for the expected requests, then briefly for unexpected ones. */
  async settle(isThere: () => boolean): Promise<void> {
    await waitFor("the requests", isThere).catch(() => {});
    await sleep(150);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    clearInterval(this.#timer);
    await this.#hooks[Symbol.asyncDispose]();
  }
}
