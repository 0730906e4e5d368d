/** The BPF programs with the decoders of databases, caches and DNS, without the rest of the traffic process. */

import { setTimeout as sleep } from "node:timers/promises";
import type { TrafficRole } from "../../src/traffic/core/messages.ts";
import type { FinishedRequest } from "../../src/traffic/core/protocol-decoder.ts";
import { type KernelHooks, openKernelHooks } from "../../src/traffic/kernel/kernel-hooks.ts";
import { PayloadRecordView, recordKinds } from "../../src/traffic/kernel/payload-records.ts";
import { RequestGroups } from "../../src/traffic/requests/request-groups.ts";
import { databaseDecoders } from "../../src/traffic/streams/decoders.ts";
import { PayloadStreams, type StreamEnds } from "../../src/traffic/streams/payload-streams.ts";
import { recognise } from "../../src/traffic/streams/recognise.ts";
import { createTlsProbes, type TlsProbes } from "../../src/traffic/tls/tls-probes.ts";
import { requestsObject } from "./bpf-skip-reason.ts";
import { testTrafficSettings } from "./traffic-settings.ts";
import { waitFor } from "./wait-for.ts";

export type SeenRequest = FinishedRequest & StreamEnds;

export interface PayloadObserverOptions {
  /** Default: at sockets. */
  kind?: KernelHooks["kind"];
  /** Ignores connections to other server ports, so that traffic of other programs on this host causes no losses here. */
  port?: number;
}

export class PayloadObserver implements AsyncDisposable {
  readonly requests: SeenRequest[] = [];
  readonly losses: Record<string, number> = {};
  readonly #hooks: KernelHooks;
  readonly #streams: PayloadStreams;
  readonly #record = new PayloadRecordView();
  readonly #timer: NodeJS.Timeout;
  /** Payloads read from the ring buffer, by protocol. */
  readonly payloads: Record<string, number> = {};

  readonly #port: number | undefined;
  readonly #tls: TlsProbes | null;

  private constructor(hooks: KernelHooks, port: number | undefined, tls: TlsProbes | null) {
    this.#hooks = hooks;
    this.#port = port;
    this.#tls = tls;
    this.#streams = new PayloadStreams({
      groups: new RequestGroups(),
      decoders: databaseDecoders,
      recognise,
      onLoss: (loss, count) => {
        this.losses[loss] = (this.losses[loss] ?? 0) + count;
      },
      onRequest: (ends, request) => this.requests.push({ ...ends, ...request, protocol: ends.protocol }),
    });
    const ring = hooks.object.ring("events");
    this.#timer = setInterval(() => {
      ring.drain((view, offset, length, bytes) => this.#onRecord(view, offset, length, bytes));
      this.#streams.sweep(Number(process.hrtime.bigint()));
    }, 20);
  }

  static async open({ kind = "sockets", port }: PayloadObserverOptions = {}): Promise<PayloadObserver> {
    const options = { settings: testTrafficSettings, ownPids: [], kinds: [kind], objectPath: requestsObject };
    return new PayloadObserver(await openKernelHooks(options), port, null);
  }

  /** Also attach to the TLS libraries of running processes. */
  static async openWithTls(): Promise<PayloadObserver> {
    const tls = { isEnabled: true, excludedExecutables: [] };
    const options = { settings: { ...testTrafficSettings, tls }, ownPids: [], objectPath: requestsObject };
    const hooks = await openKernelHooks(options);
    const probes = createTlsProbes({ object: hooks.object, settings: tls });
    await probes.refresh();
    return new PayloadObserver(hooks, undefined, probes);
  }

  #onRecord(view: DataView, offset: number, length: number, bytes: Buffer): void {
    const kind = view.getUint8(offset);
    if (kind === recordKinds.learn || !this.#record.read(view, offset, length, bytes)) return;
    const { localPort, peerPort } = this.#record;
    if (this.#port !== undefined && localPort !== this.#port && peerPort !== this.#port) return;
    const name = this.#record.protocol ?? "none";
    // Other programs on this host may use HTTP.
    if (this.#record.protocol === null || !(this.#record.protocol in databaseDecoders)) return;
    if (kind === recordKinds.closed) this.#streams.onClose(this.#record.connectionId, this.#record.atNs, this.#record.missed);
    else {
      this.payloads[name] = (this.payloads[name] ?? 0) + 1;
      this.#streams.onPayload(this.#record);
    }
  }

  of(pid: number): SeenRequest[] {
    return this.requests.filter((request) => request.pid === pid);
  }

  /** Request counts by protocol, method, route and status. */
  counts(isWanted: (request: SeenRequest) => boolean): Record<string, number> {
    const counts: Record<string, number> = {};
    for (const request of this.requests) {
      if (!isWanted(request)) continue;
      const key = `${request.protocol} ${request.method} | ${request.route} | ${request.status}${request.isError ? "!" : ""}`;
      counts[key] = (counts[key] ?? 0) + 1;
    }
    return counts;
  }

  countsOf(pid: number, role: TrafficRole): Record<string, number> {
    return this.counts((request) => request.pid === pid && request.role === role);
  }

  /** Waits for the expected requests, then briefly for unexpected ones. */
  async settle(isThere: () => boolean): Promise<void> {
    await waitFor("the requests", isThere, { intervalMs: 20 }).catch(() => {});
    await sleep(150);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    clearInterval(this.#timer);
    await this.#tls?.[Symbol.asyncDispose]();
    await this.#hooks[Symbol.asyncDispose]();
  }
}
