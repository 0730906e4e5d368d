/** Receives reports of the traffic process, names both ends of each request, and stores the rows. Idle while there is no such process. */

import type { Clock } from "../../base/clock.ts";
import type { Logger } from "../../base/log.ts";
import { matcherOf } from "../../base/name-pattern.ts";
import type { AgentTrafficConfig } from "../../config/index.ts";
import type { DiscoveryScan } from "../../host/index.ts";
import { type AgentStore } from "../../store/agent/index.ts";
import { event, type RowOf, red, type SampleTime, trafficLoss } from "../../store/signals/index.ts";
import type {
  CapturedRequest,
  LossKind,
  RequestGroup,
  SuperviseTrafficOptions,
  TrafficReport,
  TrafficSettings,
  TrafficState,
  TrafficStatus,
  TrafficSupervisor,
  TrafficWindow,
  UnseenRequests,
} from "../../traffic/index.ts";
import { CaptureHub } from "../capture/capture-hub.ts";
import type { ConnectionRow } from "../connections/connection-tracks.ts";
import type { KernelReports } from "../connections/kernel-connections.ts";
import { isCommandLineTool } from "../naming/command-line-tools.ts";
import type { ServiceNamer } from "../naming/service-namer.ts";
import type { LearnedNames } from "./learned-names.ts";
import { OrderedAppends } from "./ordered-appends.ts";
import { PeerNames } from "./peer-names.ts";
import type { TimeSpan, TrafficDirectory } from "./traffic-directory.ts";
import { type NamedGroup, type RedRow, trafficRows } from "./traffic-rows.ts";
import { trafficSettings } from "./traffic-settings.ts";
import { TrafficTotals } from "./traffic-totals.ts";
import { WindowCallers } from "./window-callers.ts";

export interface TrafficCollectorOptions {
  store: Pick<AgentStore, "append">;
  directory: TrafficDirectory;
  names: LearnedNames;
  /** Read again whenever `reconfigure` is called. */
  config: () => AgentTrafficConfig;
  /** Starts the traffic process. */
  supervise: (options: SuperviseTrafficOptions) => TrafficSupervisor;
  /** Processes of Coral, which are not observed; read after each scan. */
  ownPids: () => readonly number[];
  /** Cores of the host. */
  cores: number;
  /** Receives reports about connections. */
  connections?: KernelReports;
  /** Requests a scan: the traffic has an unknown process. */
  rescan: () => void;
  clock: Clock;
  log: Logger;
}

type LossRow = RowOf<typeof trafficLoss.columns>;

/** For status and metrics. */
export interface TrafficReadings {
  isEnabled: boolean;
  status: TrafficStatus | null;
  totals: TrafficTotals;
}

/** Requests of unknown processes. They wait for a scan, at most until the next window. */
interface PendingWindow {
  groups: RequestGroup[];
  span: TimeSpan;
  time: SampleTime;
  windowMs: number;
}

/** Windows that wait for the first scan. */
const maxPendingWindows = 6;
/** Pause between requested scans; doubles while they do not find the process. */
const firstRescanMs = 5_000;
/** Longest pause between requested scans. */
const maxRescanMs = 300_000;
const maxTried = 4_096;
/** An older window was measured by another clock. */
const maxAgeMs = 600_000;

/** Owns the supervisor of the traffic process. Windows are named, divided among callers, and stored in order. */
export class TrafficCollector implements AsyncDisposable {
  readonly captures: CaptureHub;
  readonly #options: TrafficCollectorOptions;
  readonly #peers = new PeerNames();
  readonly #totals = new TrafficTotals();
  /** The store bounds its queue. */
  readonly #appends: OrderedAppends;
  #supervisor: TrafficSupervisor | undefined;
  #sentSettings = "";
  /** Shared with the supervisor, which reads it whenever it sends settings. */
  readonly #ownPids: number[] = [];
  #isExcluded: (service: string) => boolean = () => false;
  #step = 0;
  #pending: PendingWindow[] = [];
  #isScanned = false;
  #nextRescanMs = Number.NEGATIVE_INFINITY;
  #lastRescanMs = Number.NEGATIVE_INFINITY;
  /** Pid and start of servers that a scan was requested for. */
  readonly #tried = new Set<string>();
  #rescanPauseMs = firstRescanMs;
  #isClosed = false;
  /** Changes are serialised: a process must have exited before the next one starts. */
  #changing: Promise<void> = Promise.resolve();

  constructor(options: TrafficCollectorOptions) {
    this.#options = options;
    this.#appends = new OrderedAppends("requests", options.log);
    this.captures = new CaptureHub({
      capture: (order) => this.#supervisor?.capture(order) ?? false,
      stopCapture: (captureId) => this.#supervisor?.stopCapture(captureId),
      problem: () => this.#problem(),
      pendingStep: () => this.#pendingStep(),
    });
  }

  /** Starts, stops or reconfigures the traffic process to match the config. */
  reconfigure(): Promise<void> {
    this.#changing = this.#changing.then(() => this.#reconfigure());
    return this.#changing;
  }

  /** Call after each scan for services. */
  scanned(scan: DiscoveryScan, namer: ServiceNamer): void {
    this.#options.directory.update(scan, namer);
    this.#isScanned = true;
    this.captures.changed();
    this.#sendSettings();
    if (this.#pending.length === 0) return;
    let hasNamed = false;
    this.#pending = this.#pending.flatMap((pending) => {
      const { unknown, ...known } = this.#name(pending.groups, pending.span, false);
      hasNamed ||= known.named.length > 0;
      this.#storeNamed(known, pending, new Map());
      return unknown.length === 0 ? [] : [{ ...pending, groups: unknown }];
    });
    this.#rescanPauseMs = hasNamed ? firstRescanMs : Math.min(maxRescanMs, this.#rescanPauseMs * 2);
  }

  /** Call with the rows of connections: they name callers that no scan sees. */
  connected(rows: readonly ConnectionRow[]): void {
    this.#options.directory.addCallers(rows);
  }

  /** Marks the start or end of a socket scan in the traffic process; false when there is none. */
  markScan(phase: "begin" | "end", mark: number): boolean {
    return this.#supervisor?.markScan(phase, mark) ?? false;
  }

  readings(): TrafficReadings {
    return { isEnabled: this.#options.config().enabled, status: this.#supervisor?.status() ?? null, totals: this.#totals };
  }

  /** Stops the traffic process and stores pending rows. Idempotent. */
  async [Symbol.asyncDispose](): Promise<void> {
    this.#isClosed = true;
    this.#changing = this.#changing.then(() => this.#stop());
    await this.#changing;
    this.#flushPending();
    await this.#appends.settled();
  }

  async #reconfigure(): Promise<void> {
    const { config, log, supervise, clock } = this.#options;
    const { enabled, tls } = config();
    this.#isExcluded = matcherOf(tls.exclude);
    if (!enabled || this.#isClosed) return await this.#stop();
    if (this.#supervisor) return this.#sendSettings();
    const settings = this.#settings();
    this.#sentSettings = this.#fingerprint(settings);
    this.#supervisor = supervise({
      settings,
      ownPids: this.#ownPids,
      onReport: (report) => this.#accept(report),
      onUnexpectedEnd: (reason, restartMs) => this.#restarted(reason, restartMs),
      log,
      clock,
    });
  }

  async #stop(): Promise<void> {
    const supervisor = this.#supervisor;
    if (!supervisor) return;
    this.#supervisor = undefined;
    this.#step = 0;
    this.captures.lost();
    this.#options.connections?.stopped(this.#isClosed ? "the agent is stopping" : "traffic.enabled is false in the agent's config");
    await supervisor[Symbol.asyncDispose]();
  }

  #settings(): TrafficSettings {
    const { config, cores, directory } = this.#options;
    const isAnyExcluded = config().tls.exclude.length > 0;
    return trafficSettings(config(), cores, isAnyExcluded ? directory.pidsOf(({ name }) => this.#isExcluded(name)) : []);
  }

  /** Everything that is sent with settings, for comparison. */
  #fingerprint(settings: TrafficSettings): string {
    this.#ownPids.splice(0, this.#ownPids.length, ...this.#options.ownPids());
    return JSON.stringify([settings, this.#ownPids]);
  }

  #sendSettings(): void {
    if (!this.#supervisor) return;
    const settings = this.#settings();
    const text = this.#fingerprint(settings);
    if (text === this.#sentSettings) return;
    this.#sentSettings = text;
    this.#supervisor.changeSettings(settings);
  }

  #problem(): string | null {
    if (!this.#options.config().enabled) return "traffic.enabled is false in the agent's config";
    const state = this.#supervisor?.status().state;
    return state?.hooks === "off" ? (state.problem ?? "kernel hooks are off") : null;
  }

  /** Null when hooks are off or disabled: there is nothing to wait for. */
  #pendingStep(): string | null {
    if (!this.#options.config().enabled) return null;
    const state = this.#supervisor?.status().state;
    if (!state) return "the traffic process is loading";
    return this.#isScanned || state.hooks === "off" ? null : "the first scan for services is not finished";
  }

  #accept(report: TrafficReport): void {
    switch (report.kind) {
      case "window":
        return this.#acceptWindow(report);
      case "state":
        return this.#acceptState(report);
      case "captured":
        // The exclusion may have reached the traffic process after it read this request.
        if (report.isTls && this.#isExcluded(this.#options.directory.serviceOf(report.pid, null)?.name ?? "")) return;
        return this.captures.accept({ ...report, peer: this.#peerOf({ ...report, peerAddress: otherAddress(report) }) });
      case "capture-ended":
        return this.captures.accept(report);
      case "connections":
        this.#recordLostConnections(report.lost);
        return this.#options.connections?.accept(report);
      case "connections-state":
        return this.#options.connections?.accept(report);
    }
  }

  /** Records connections that were neither reported nor aggregated. */
  #recordLostConnections(count: number): void {
    if (count === 0) return;
    const { clock } = this.#options;
    this.#totals.addLoss("connections-full", count);
    const time = { at: Math.round(clock.wallMs() * 1_000), mono_ms: Math.round(clock.monotonicMs()) };
    this.#store([], [{ ...time, loss: "connections-full", count, window_ms: 0, service: null, detail: null }]);
  }

  #acceptWindow(window: TrafficWindow): void {
    const { config, directory, names } = this.#options;
    const { disabledProtocols } = config();
    if (this.#isScanned || this.#pending.length >= maxPendingWindows) this.#flushPending();
    this.#totals.add(window);
    this.#peers.add(window.peerNames);
    const windowMs = Math.max(1, Number(window.toNs - window.fromNs) / 1e6);
    const context = { time: this.#timeOf(window), windowMs, span: { fromNs: window.fromNs, toNs: window.toNs } };
    names.add(window.names, (pid) => directory.headOf(pid, context.span));
    const groups = window.requests.filter(({ protocol, count }) => count > 0 && !disabledProtocols.includes(protocol));
    const { named, unknown, excluded } = this.#name(groups, context.span, false);
    if (unknown.length > 0) this.#defer({ ...context, groups: unknown });
    this.#storeNamed({ named, excluded }, context, new Map(window.losses.map(({ loss, count }) => [loss, count])));
    this.#store([], this.#unseenRows(window.unseen ?? [], context));
  }

  /** One row per service and reason. Processes without a service are skipped: no query is about them. */
  #unseenRows(unseen: readonly UnseenRequests[], { time, windowMs, span }: Omit<PendingWindow, "groups">): LossRow[] {
    const rows = new Map<string, LossRow>();
    for (const { pid, reason, detail, count } of unseen) {
      const known = this.#options.directory.serviceOf(pid, null, span);
      if (known === undefined || (reason === "tls-unreadable" && this.#isExcluded(known.name))) continue;
      const key = `${reason} ${known.service} ${detail}`;
      const total = (rows.get(key)?.count ?? 0) + count;
      rows.set(key, { ...time, loss: reason, count: total, window_ms: Math.round(windowMs), service: known.service, detail });
    }
    return [...rows.values()];
  }

  /** `losses` are those of the traffic process; what is lost here is added to them. */
  #storeNamed(
    { named, excluded }: { named: readonly NamedGroup[]; excluded: number },
    { time, windowMs }: Pick<PendingWindow, "time" | "windowMs">,
    losses: Map<LossKind, number>,
  ): void {
    const { rows, foldedRequests } = trafficRows(named, { time, windowMs, maxRows: this.#options.config().maxRows });
    for (const [loss, count] of [["routes-full", foldedRequests] as const, ["tls-opaque", excluded] as const]) {
      this.#totals.addLoss(loss, count);
      losses.set(loss, (losses.get(loss) ?? 0) + count);
    }
    const lossRows = [...losses].flatMap(([loss, count]) =>
      count > 0 ? [{ ...time, loss, count: Math.round(count), window_ms: Math.round(windowMs), service: null, detail: null }] : [],
    );
    this.#store(rows, lossRows);
  }

  /** Timestamp of a window's end for stored rows. */
  #timeOf({ toNs }: TrafficWindow): SampleTime {
    const { clock } = this.#options;
    const nowMs = clock.monotonicMs();
    const agoMs = nowMs - Number(toNs / 1_000n) / 1_000;
    const pastMs = agoMs >= 0 && agoMs < maxAgeMs ? agoMs : 0;
    return { at: Math.round((clock.wallMs() - pastMs) * 1_000), mono_ms: Math.round(nowMs - pastMs) };
  }

  /** `isLast`: unknown processes are not retried and get the kernel's process name. */
  #name(
    groups: readonly RequestGroup[],
    span: TimeSpan,
    isLast: boolean,
  ): { named: NamedGroup[]; unknown: RequestGroup[]; excluded: number } {
    const { directory } = this.#options;
    const named: NamedGroup[] = [];
    const unknown: RequestGroup[] = [];
    const callers = new WindowCallers(groups, ({ pid, processName }) => {
      // A tool such as curl has often exited before a scan; it is recorded under the kernel's process name.
      const isFinalName = processName !== undefined && (isLast || isCommandLineTool(processName));
      return directory.serviceOf(pid, null, span)?.service ?? (isFinalName ? processName : null);
    });
    let excluded = 0;
    for (const group of groups) {
      const known = directory.serviceOf(group.pid, group.role === "server" ? group.serverPort : null, span);
      const service = known?.service ?? (isLast ? (group.processName ?? "unknown") : undefined);
      if (service === undefined) unknown.push(group);
      // The process may have been observed before a scan found its service.
      else if (group.isTls && this.#isExcluded(known?.name ?? service)) excluded += group.count;
      else for (const called of callers.of(group) ?? [{ group, peer: this.#peerOf(group) }]) named.push({ ...called, service });
    }
    return { named, unknown, excluded };
  }

  #peerOf({ pid, role, peerAddress, serverPort }: Pick<RequestGroup, "pid" | "role" | "peerAddress" | "serverPort">): string | null {
    const { directory } = this.#options;
    if (role === "server") return directory.callerOf(pid, serverPort, peerAddress);
    return directory.listenerAt(pid, peerAddress, serverPort) ?? this.#peers.nameOf(peerAddress, serverPort);
  }

  #defer(pending: PendingWindow): void {
    this.#pending.push(pending);
    const nowMs = this.#options.clock.monotonicMs();
    const fresh = this.#untriedServers(pending.groups);
    // A new server is worth a scan, however many exited processes were sought in vain.
    if (nowMs < (fresh.length > 0 ? this.#lastRescanMs + firstRescanMs : this.#nextRescanMs)) return;
    if (this.#tried.size > maxTried) this.#tried.clear();
    for (const process of fresh) this.#tried.add(process);
    this.#lastRescanMs = nowMs;
    this.#nextRescanMs = nowMs + this.#rescanPauseMs;
    this.#options.rescan();
  }

  /** Server processes that run and that no scan was requested for. */
  #untriedServers(groups: readonly RequestGroup[]): string[] {
    return groups.flatMap(({ pid, role }) => {
      const startTicks = role === "server" ? this.#options.directory.startTicksNow(pid) : null;
      const key = `${pid} ${startTicks}`;
      return startTicks === null || this.#tried.has(key) ? [] : [key];
    });
  }

  #flushPending(): void {
    for (const pending of this.#pending) this.#storeNamed(this.#name(pending.groups, pending.span, true), pending, new Map());
    this.#pending = [];
  }

  #acceptState(state: TrafficState): void {
    this.captures.changed();
    if (state.hooks === "off" && state.problem !== null) {
      this.#options.log.warn(`requests are not observed: ${state.problem}`);
      this.#options.connections?.explain(state.problem);
    }
    if (state.step === this.#step) return;
    const before = this.#step;
    this.#step = state.step;
    const isLess = state.step > before;
    this.#recordEvent(
      "ladder-stepped",
      isLess ? "warning" : "info",
      `Request detail ${isLess ? "reduced" : "restored"}: step ${before} → ${state.step}`,
      {
        before,
        after: state.step,
      },
    );
  }

  #restarted(reason: string, restartMs: number): void {
    this.captures.lost();
    this.#options.connections?.lost("the traffic process is restarting");
    this.#step = 0;
    this.#recordEvent("traffic-process-restarted", "warning", `Traffic process exited (${reason}); restarting it`, {
      reason,
      restartMs: Math.round(restartMs),
    });
  }

  #recordEvent(kind: string, severity: "info" | "warning", message: string, details: Record<string, unknown>): void {
    const { clock, store } = this.#options;
    const time = { at: Math.round(clock.wallMs() * 1_000), mono_ms: Math.round(clock.monotonicMs()) };
    const row: RowOf<typeof event.columns> = {
      ...time,
      kind,
      severity,
      service: null,
      pid: null,
      message,
      details: JSON.stringify(details),
    };
    this.#appends.add(() => store.append(event, [row]));
  }

  #store(rows: readonly RedRow[], losses: readonly LossRow[]): void {
    const { store } = this.#options;
    if (rows.length === 0 && losses.length === 0) return;
    this.#appends.add(() =>
      Promise.all([
        ...(rows.length > 0 ? [store.append(red, rows)] : []),
        ...(losses.length > 0 ? [store.append(trafficLoss, losses)] : []),
      ]),
    );
  }
}

function otherAddress({ role, clientAddress, serverAddress }: CapturedRequest): string {
  return role === "server" ? clientAddress : serverAddress;
}
