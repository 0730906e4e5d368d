/** The hooks in the kernel with the decoder of HTTP/2, without the rest of the traffic process. */

import { setTimeout as sleep } from "node:timers/promises";
import type { KernelHooks } from "../../src/traffic/kernel-hooks.ts";
import { openKernelHooks } from "../../src/traffic/kernel-hooks.ts";
import type { TrafficRole } from "../../src/traffic/messages.ts";
import { PayloadStreams } from "../../src/traffic/payload-streams.ts";
import type { FinishedRequest } from "../../src/traffic/protocol-decoder.ts";
import { createHttp2Decoder } from "../../src/traffic/protocols/http2-stream.ts";
import { RequestGroups } from "../../src/traffic/request-groups.ts";
import { waitFor } from "./wait-for.ts";

export interface SeenRequest extends FinishedRequest {
  pid: number;
  role: TrafficRole;
}

const settings = {
  windowMs: 10_000,
  maxRequestKinds: 4096,
  maxConnections: 16_384,
  maxRoutesPerService: 200,
  ringBytes: 8 << 20,
  tls: { isEnabled: false, excludedExecutables: [] },
  cpuBudget: 1,
};
const recordBytes = 80;

export class Http2Observer implements AsyncDisposable {
  readonly requests: SeenRequest[] = [];
  readonly losses: Record<string, number> = {};
  readonly #hooks: KernelHooks;
  readonly #streams: PayloadStreams;
  readonly #timer: NodeJS.Timeout;

  private constructor(hooks: KernelHooks) {
    this.#hooks = hooks;
    this.#streams = new PayloadStreams({
      groups: new RequestGroups(),
      decoders: { http2: createHttp2Decoder },
      recognise: () => null,
      onLoss: (loss, count) => {
        this.losses[loss] = (this.losses[loss] ?? 0) + count;
      },
      onRequest: ({ pid, role }, request) => this.requests.push({ ...request, pid, role }),
    });
    const ring = hooks.object.ring("events");
    this.#timer = setInterval(() => {
      ring.drain((view, offset, length, bytes) => this.#onRecord(view, offset, length, bytes));
    }, 20);
  }

  static async open(): Promise<Http2Observer> {
    const objectPath = process.env["CORAL_TEST_OBJECT"];
    return new Http2Observer(await openKernelHooks({ settings, ownPids: [], ...(objectPath === undefined ? {} : { objectPath }) }));
  }

  #onRecord(view: DataView, offset: number, length: number, bytes: Buffer): void {
    const kind = view.getUint8(offset);
    if (kind === 3) this.#streams.onClose(view.getUint32(offset + 8, true), Number(view.getBigUint64(offset + 16, true)));
    if (kind !== 2 || view.getUint8(offset + 1) !== 2) return;
    const size = view.getUint16(offset + 6, true);
    this.#streams.onPayload({
      connectionId: view.getUint32(offset + 8, true),
      pid: view.getUint32(offset + 12, true),
      isSent: view.getUint8(offset + 4) === 1,
      isTls: (view.getUint8(offset + 3) & 1) !== 0,
      isDatagram: false,
      protocol: "http2",
      role: view.getUint8(offset + 2) === 1 ? "server" : "client",
      localPort: view.getUint16(offset + 40, true),
      peerPort: view.getUint16(offset + 42, true),
      peerAddress: "127.0.0.1",
      atNs: Number(view.getBigUint64(offset + 16, true)),
      startNs: Number(view.getBigUint64(offset + 24, true)),
      lengthBytes: view.getUint32(offset + 32, true),
      offsetBytes: view.getUint32(offset + 36, true),
      bytes: bytes.subarray(offset + recordBytes, offset + recordBytes + Math.min(size, length - recordBytes)),
    });
  }

  total(pid: number): number {
    return this.requests.reduce((sum, request) => sum + (request.pid === pid ? 1 : 0), 0);
  }

  /** Protocol, method, route, status and how often. */
  counts(pid: number, role: TrafficRole): Record<string, number> {
    const counts: Record<string, number> = {};
    for (const request of this.requests) {
      if (request.pid !== pid || request.role !== role) continue;
      const key = `${request.protocol} ${request.method} ${request.route} ${request.status}${request.isError ? " error" : ""}`;
      counts[key] = (counts[key] ?? 0) + 1;
    }
    return counts;
  }

  /** Waits for what should come, then a moment for what should not. */
  async settle(isThere: () => boolean): Promise<void> {
    await waitFor("the requests", isThere, { timeoutMs: 5000 }).catch(() => {});
    await sleep(150);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    clearInterval(this.#timer);
    await this.#hooks[Symbol.asyncDispose]();
  }
}
