/** Composes the parts of the traffic process: the kernel's request table, decoders of ring payloads, TLS probes, captures. */

import { background } from "../base/background.ts";
import type { Logger } from "../base/log.ts";
import { ResourceStack } from "../base/resource-stack.ts";
import type { TrafficProtocol } from "../model/protocols.ts";
import { Captures } from "./capture/capture.ts";
import { ladderSteps } from "./core/budget-ladder.ts";
import type { CaptureOrder, LossKind, TrafficReport, TrafficSettings, TrafficState } from "./core/messages.ts";
import type { DecoderFactory } from "./core/protocol-decoder.ts";
import { controlsOf, writeControls } from "./kernel/kernel-controls.ts";
import type { KernelHooks } from "./kernel/kernel-hooks.ts";
import { learnRecordLayout } from "./kernel/kernel-layout.ts";
import { KernelTable } from "./kernel/kernel-table.ts";
import { PayloadRecordView, payloadRecordLayout, recordKinds } from "./kernel/payload-records.ts";
import { ProcessNames } from "./kernel/process-names.ts";
import { UnseenProcesses } from "./kernel/unseen-requests.ts";
import { createHttp1Decoder } from "./protocols/http/http1-stream.ts";
import { createHttp2Decoder } from "./protocols/http/http2-stream.ts";
import { RequestGroups } from "./requests/request-groups.ts";
import { RouteLimiter } from "./requests/route-limiter.ts";
import { createRouteTemplater } from "./requests/route-template.ts";
import { databaseDecoders } from "./streams/decoders.ts";
import { PayloadStreams } from "./streams/payload-streams.ts";
import { recognise } from "./streams/recognise.ts";
import { RequestedHosts } from "./streams/requested-hosts.ts";
import { createTlsProbes, type TlsProbes } from "./tls/tls-probes.ts";
import type { TrafficParts, WindowDraft } from "./traffic-runtime.ts";

export interface OpenPartsOptions {
  hooks: KernelHooks;
  settings: TrafficSettings;
  report: (report: TrafficReport) => void;
  log: Logger;
}

export interface OpenedParts extends TrafficParts, AsyncDisposable {
  /** Applies settings that need no reload. */
  applySettings(settings: TrafficSettings): void;
  startCapture(order: CaptureOrder): void;
  stopCapture(captureId: string): void;
}

/** How often processes are scanned for TLS libraries. */
const tlsRefreshNs = 2_000_000_000n;

export function openTrafficParts(options: OpenPartsOptions): OpenedParts {
  return new Parts(options);
}

class Parts implements OpenedParts {
  readonly #hooks: KernelHooks;
  readonly #log: Logger;
  readonly #resources = new ResourceStack();
  readonly #record = new PayloadRecordView();
  readonly #processNames = new ProcessNames();
  readonly #groups: RequestGroups;
  readonly #limiter: RouteLimiter;
  readonly #streams: PayloadStreams;
  readonly #table: KernelTable;
  readonly #requestedHosts = new RequestedHosts((loss, count) => this.#lost(loss, count));
  readonly #captures: Captures;
  readonly #tls: TlsProbes | null;
  readonly #unseen: UnseenProcesses;
  readonly #losses = new Map<LossKind, number>();
  #settings: TrafficSettings;
  #step = 0;
  #tlsRefreshedNs = 0n;

  constructor({ hooks, settings, report, log }: OpenPartsOptions) {
    this.#hooks = hooks;
    this.#settings = settings;
    this.#log = log;
    this.#groups = new RequestGroups({ maxGroups: settings.maxRequestKinds });
    this.#limiter = new RouteLimiter({ maxRoutesPerService: settings.maxRoutesPerService });
    this.#table = new KernelTable({ object: hooks.object });
    const template = createRouteTemplater();
    const decoders: Partial<Record<TrafficProtocol, DecoderFactory>> = {
      ...databaseDecoders,
      http: (context) => createHttp1Decoder(context, { template }),
    };
    // For captures the kernel copies payloads, except those of DNS and HTTP/2, which user space decodes anyway.
    const { dns: _decodedAnyway, ...copied } = decoders;
    this.#captures = this.#resources.use(
      new Captures({
        targets: hooks.object.map("capture_targets"),
        setActive: () => this.#control(),
        report,
        decoders: copied,
        recognise,
      }),
    );
    this.#streams = new PayloadStreams({
      groups: this.#groups,
      decoders: { ...decoders, http2: (context) => createHttp2Decoder(context, { template }) },
      recognise,
      onLoss: (loss, count) => this.#lost(loss, count),

      onRequest: (ends, request) => {
        this.#requestedHosts.onRequest(ends, request);
        if (this.#captures.isActive) this.#captures.onRequest(ends, request);
      },
      isCapturing: (pid) => this.#captures.isCapturing(pid),
      maxConnections: settings.maxConnections,
    });
    this.#unseen = new UnseenProcesses({ map: hooks.object.map("unseen_requests") });
    this.#tls =
      hooks.plaintextProblem === null ? this.#resources.use(createTlsProbes({ object: hooks.object, settings: settings.tls })) : null;
    this.#control();
  }

  onRecord: TrafficParts["onRecord"] = (view, offset, length, bytes) => {
    const kind = view.getUint8(offset);
    if (kind === recordKinds.learn) {
      if (length >= learnRecordLayout.sizeBytes) {
        const pid = view.getUint32(offset + learnRecordLayout.tgid, true);
        this.#processNames.observe(pid, bytes, offset + learnRecordLayout.comm);
      }
      if (!this.#table.onLearn(view, offset, length, bytes)) this.#lost("undecoded", 1);
      return;
    }
    const record = this.#record;
    if (!record.read(view, offset, length, bytes)) {
      this.#lost("undecoded", 1);
      return;
    }
    if (kind === recordKinds.closed) {
      this.#streams.onClose(record.connectionId, record.atNs, record.missed);
      this.#captures.onClose(record.connectionId, record.atNs, record.missedCopies);
      return;
    }
    this.#processNames.observe(record.pid, bytes, offset + payloadRecordLayout.comm);
    if (record.isCapture) this.#captures.onPayload(record);
    else if (record.protocol === "tls") this.#requestedHosts.onHello(record);
    else this.#streams.onPayload(record);
  };

  /** Leaves out the kernel's table: a walk takes a millisecond, and its counts are not read before the window ends. */
  sweep(nowNs: bigint): void {
    this.#hooks.attachWanted();
    this.#streams.sweep(Number(nowNs));
    this.#captures.sweep(nowNs);
    if (this.#tls === null || nowNs - this.#tlsRefreshedNs < tlsRefreshNs) return;
    this.#tlsRefreshedNs = nowNs;
    background(this.#log, "Scanning for TLS libraries", this.#tls.refresh());
  }

  collect(draft: WindowDraft, nowNs: bigint): void {
    this.#table.sweep(nowNs);
    const counted = this.#table.collect(nowNs);
    const requested = this.#requestedHosts.take();
    const { requests, overflow, uncounted } = this.#groups.take();
    this.#lost("routes-full", overflow);
    this.#lost("undecoded", uncounted);
    for (const group of [...counted.requests, ...requests]) {
      group.route = this.#limiter.limit(`${group.pid} ${group.role} ${group.serverPort}`, group.route, group.count);
      const processName = this.#processNames.nameOf(group.pid);
      draft.requests.push(processName === undefined ? group : { ...group, processName });
    }
    this.#processNames.endWindow();
    this.#lost("routes-full", this.#limiter.takeOverflow());
    this.#limiter.age();
    draft.names.push(...counted.names, ...requested.names);
    draft.peerNames.push(...counted.peerNames, ...requested.peerNames);
    draft.unseen = [...this.#unseen.take(nowNs), ...(this.#tls?.unreadable() ?? [])];
    for (const losses of [counted.losses, this.#losses]) {
      for (const [loss, count] of losses) draft.losses.set(loss, (draft.losses.get(loss) ?? 0) + count);
    }
    this.#losses.clear();
  }

  setStep(step: number): void {
    this.#step = step;
    this.#control();
    const isPaused = step === ladderSteps.indexOf("paused");
    this.#tls?.setPaused(isPaused);
    if (isPaused) background(this.#log, "Detaching the hooks", this.#hooks.detach());
    else this.#hooks.attach();
  }

  tls(): TrafficState["tls"] {
    return this.#tls?.state() ?? [];
  }

  applySettings(settings: TrafficSettings): void {
    this.#settings = settings;
    this.#tls?.applySettings(settings.tls);
    this.#control();
  }

  startCapture(order: CaptureOrder): void {
    this.#captures.start(order);
  }

  stopCapture(captureId: string): void {
    this.#captures.stop(captureId);
  }

  #control(): void {
    writeControls(this.#hooks.object.map("controls"), {
      ...controlsOf(this.#step, this.#settings.disabledProtocols ?? []),
      isCapturing: this.#captures.isActive,
    });
  }

  #lost(loss: LossKind, count: number): void {
    if (count > 0) this.#losses.set(loss, (this.#losses.get(loss) ?? 0) + count);
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.#resources[Symbol.asyncDispose]();
  }
}
