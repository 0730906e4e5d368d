/** The hooks in the kernel with the probes for plaintext, and what they counted; without the rest of the traffic process. */

import { type KernelHooks, openKernelHooks } from "../../src/traffic/kernel-hooks.ts";
import type { TrafficRole, TrafficSettings } from "../../src/traffic/messages.ts";
import { PayloadStreams } from "../../src/traffic/payload-streams.ts";
import { createHttp2Decoder } from "../../src/traffic/protocols/http2-stream.ts";
import { RequestGroups } from "../../src/traffic/request-groups.ts";
import { createTlsProbes, type TlsProbes } from "../../src/traffic/tls/tls-probes.ts";

export interface SeenRequests {
  pid: number;
  role: TrafficRole;
  serverPort: number;
  status: number;
  isTls: boolean;
  /** As the first request of the kind had it; null before the record with its name has come. */
  target: string | null;
  count: number;
}

const settings: Omit<TrafficSettings, "tls"> = {
  windowMs: 10_000,
  maxRequestKinds: 4096,
  maxConnections: 16_384,
  maxRoutesPerService: 200,
  ringBytes: 8 << 20,
  cpuBudget: 1,
};
/** Of probes/request-table.h and probes/payload.h, as far as this test reads them. */
const layout = { learnBytes: 40, payloadBytes: 80, histogramAt: 32, fineBuckets: 417, tls: 1, http: 1 };

export class TlsObserver implements AsyncDisposable {
  readonly probes: TlsProbes;
  readonly http2: { pid: number; role: TrafficRole; path: string; status: string; isTls: boolean }[] = [];
  readonly #hooks: KernelHooks;
  readonly #names = new Map<string, string>();
  readonly #streams: PayloadStreams;
  readonly #timers: NodeJS.Timeout[];

  private constructor(hooks: KernelHooks, tls: TrafficSettings["tls"]) {
    this.#hooks = hooks;
    this.probes = createTlsProbes({ object: hooks.object, settings: tls });
    this.#streams = new PayloadStreams({
      groups: new RequestGroups(),
      decoders: { http2: createHttp2Decoder },
      recognise: () => null,
      onLoss: () => undefined,
      onRequest: ({ pid, role, isTls }, { route, status }) => this.http2.push({ pid, role, path: route, status, isTls }),
    });
    const ring = hooks.object.ring("events");
    this.#timers = [
      setInterval(() => ring.drain((view, offset, length, bytes) => this.#onRecord(view, offset, length, bytes)), 20),
      setInterval(() => void this.probes.refresh(), 1_000),
    ];
  }

  /** Everything that runs now is attached to when this resolves. */
  static async open(tls: TrafficSettings["tls"] = { isEnabled: true, excludedExecutables: [] }): Promise<TlsObserver> {
    const objectPath = process.env["CORAL_TEST_OBJECT"];
    const hooks = await openKernelHooks({
      settings: { ...settings, tls },
      ownPids: [],
      ...(objectPath === undefined ? {} : { objectPath }),
    });
    if (hooks.plaintextProblem !== null) throw new Error(hooks.plaintextProblem);
    const observer = new TlsObserver(hooks, tls);
    await observer.probes.refresh();
    return observer;
  }

  #onRecord(view: DataView, offset: number, length: number, bytes: Buffer): void {
    const kind = view.getUint8(offset);
    if (kind === 1) {
      const head = bytes.toString("latin1", offset + layout.learnBytes, offset + length);
      const target = head.split(/[ \r\n?]/)[1];
      if (target !== undefined) this.#names.set(String(view.getBigUint64(offset + 16, true)), target);
    } else if (kind === 3) {
      this.#streams.onClose(view.getUint32(offset + 8, true), Number(view.getBigUint64(offset + 16, true)));
    } else if (kind === 2 && view.getUint8(offset + 1) === 2) {
      this.#onHttp2(view, offset, length, bytes);
    }
  }

  #onHttp2(view: DataView, offset: number, length: number, bytes: Buffer): void {
    const size = Math.min(view.getUint16(offset + 6, true), length - layout.payloadBytes);
    this.#streams.onPayload({
      connectionId: view.getUint32(offset + 8, true),
      pid: view.getUint32(offset + 12, true),
      isSent: view.getUint8(offset + 4) === 1,
      isTls: (view.getUint8(offset + 3) & layout.tls) !== 0,
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
      bytes: bytes.subarray(offset + layout.payloadBytes, offset + layout.payloadBytes + size),
    });
  }

  /** What HTTP/1 requests were counted so far on a server's port, those that are answered included. */
  requests(serverPort: number): SeenRequests[] {
    const { object } = this.#hooks;
    const context = Buffer.alloc(16);
    context.writeBigUInt64LE(process.hrtime.bigint());
    object.run("sweep_requests", context);
    const seen: SeenRequests[] = [];
    object.map("requests").readAll((keys, keyAt, values, valueAt) => {
      if (keys.readUInt16LE(keyAt + 32) !== serverPort || keys[keyAt + 35] !== layout.http) return;
      let count = 0;
      for (let bucket = 0; bucket < layout.fineBuckets; bucket++) count += values.readUInt32LE(valueAt + layout.histogramAt + bucket * 4);
      seen.push({
        pid: keys.readUInt32LE(keyAt + 24),
        role: keys[keyAt + 34] === 1 ? "server" : "client",
        serverPort,
        status: keys.readUInt32LE(keyAt + 28),
        isTls: ((keys[keyAt + 37] ?? 0) & layout.tls) !== 0,
        target: this.#names.get(String(keys.readBigUInt64LE(keyAt))) ?? null,
        count,
      });
    });
    return seen;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const timer of this.#timers) clearInterval(timer);
    await this.probes[Symbol.asyncDispose]();
    await this.#hooks[Symbol.asyncDispose]();
  }
}
