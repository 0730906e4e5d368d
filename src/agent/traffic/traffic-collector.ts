/** Takes what the traffic process reports, names both ends of each request, and stores it. Goes on without that process where there is none. */

import type { Clock } from "../../base/clock.ts";
import { CoralError } from "../../base/errors.ts";
import { isLoopback } from "../../base/ip-address.ts";
import type { Logger } from "../../base/log.ts";
import { matcherOf } from "../../base/name-pattern.ts";
import type { AgentTrafficConfig } from "../../config/index.ts";
import type { DiscoveryScan } from "../../host/index.ts";
import { type AgentStore } from "../../store/agent/index.ts";
import { event, type RowOf, red, type SampleTime, trafficLoss } from "../../store/signals/index.ts";
import type {
  RequestGroup,
  SuperviseTrafficOptions,
  TrafficReport,
  TrafficSettings,
  TrafficState,
  TrafficStatus,
  TrafficSupervisor,
  TrafficWindow,
} from "../../traffic/index.ts";
import { CaptureHub } from "../capture/capture-hub.ts";
import type { KernelReports } from "../connections/kernel-connections.ts";
import type { ServiceNamer } from "../naming/service-namer.ts";
import { PeerNames } from "./peer-names.ts";
import type { TrafficDirectory } from "./traffic-directory.ts";
import { TrafficFigures } from "./traffic-figures.ts";
import type { TrafficNameBook } from "./traffic-name-book.ts";
import { type NamedGroup, type RedRow, trafficRows } from "./traffic-rows.ts";
import { trafficSettings } from "./traffic-settings.ts";

export interface TrafficCollectorOptions {
  store: Pick<AgentStore, "append">;
  directory: TrafficDirectory;
  names: TrafficNameBook;
  /** Read again whenever `reconfigure` is called. */
  config: () => AgentTrafficConfig;
  /** Starts the traffic process. */
  supervise: (options: SuperviseTrafficOptions) => TrafficSupervisor;
  /** Processes of Coral, which are not observed; asked again after each scan. */
  ownPids: () => readonly number[];
  /** Cores of the host. */
  cores: number;
  /** Takes what is reported about connections. */
  connections?: KernelReports;
  /** Looks for processes soon: one is in the traffic that nobody knows. */
  rescan: () => void;
  clock: Clock;
  log: Logger;
}

/** For status and metrics. */
export interface TrafficReadings {
  isEnabled: boolean;
  status: TrafficStatus | null;
  figures: TrafficFigures;
}

/** Requests of a window whose process was not known then. They wait for a scan, and for the next window at the most. */
interface Waiting {
  groups: RequestGroup[];
  time: SampleTime;
  windowMs: number;
}

/** Before the first scan nobody is known: so many windows wait for it. */
const maxWaitingWindows = 6;
const firstRescanMs = 5_000;
const maxRescanMs = 300_000;
/** Windows whose end lies further back were measured by another clock. */
const maxAgeMs = 600_000;

export class TrafficCollector implements AsyncDisposable {
  readonly captures: CaptureHub;
  readonly #options: TrafficCollectorOptions;
  readonly #peers = new PeerNames();
  readonly #figures = new TrafficFigures();
  #supervisor: TrafficSupervisor | undefined;
  #sentSettings = "";
  /** Given to the supervisor, which reads it whenever it sends settings. */
  readonly #ownPids: number[] = [];
  #isExcluded: (service: string) => boolean = () => false;
  #step = 0;
  #waiting: Waiting[] = [];
  #isScanned = false;
  #nextRescanMs = Number.NEGATIVE_INFINITY;
  #rescanPauseMs = firstRescanMs;
  #lastFailure = "";
  /** Writes are in order; the store bounds what waits in it. */
  #writing: Promise<void> = Promise.resolve();
  #isClosed = false;
  /** One change after the other: a process must be gone before the next one starts. */
  #changing: Promise<void> = Promise.resolve();

  constructor(options: TrafficCollectorOptions) {
    this.#options = options;
    this.captures = new CaptureHub({
      capture: (order) => this.#supervisor?.capture(order) ?? false,
      stopCapture: (captureId) => this.#supervisor?.stopCapture(captureId),
      problem: () => this.#problem(),
      pendingStep: () => this.#pendingStep(),
    });
  }

  /** Starts, stops or changes the traffic process as the config says now. */
  reconfigure(): Promise<void> {
    this.#changing = this.#changing.then(() => this.#reconfigure());
    return this.#changing;
  }

  /** After each scan for services. */
  scanned(scan: DiscoveryScan, namer: ServiceNamer): void {
    this.#options.directory.update(scan, namer);
    this.#isScanned = true;
    this.captures.changed();
    this.#sendSettings();
    if (this.#waiting.length === 0) return;
    let isHelped = false;
    this.#waiting = this.#waiting.flatMap((waiting) => {
      const { named, unknown } = this.#name(waiting.groups, false);
      isHelped ||= named.length > 0;
      this.#store(this.#rowsOf(named, waiting), []);
      return unknown.length === 0 ? [] : [{ ...waiting, groups: unknown }];
    });
    this.#rescanPauseMs = isHelped ? firstRescanMs : Math.min(maxRescanMs, this.#rescanPauseMs * 2);
  }

  /** Tells the traffic process that a scan of sockets begins or has ended; false when there is none. */
  markScan(phase: "begin" | "end", mark: number): boolean {
    return this.#supervisor?.markScan(phase, mark) ?? false;
  }

  readings(): TrafficReadings {
    return { isEnabled: this.#options.config().enabled, status: this.#supervisor?.status() ?? null, figures: this.#figures };
  }

  /** Ends the traffic process and stores what has arrived. Idempotent. */
  async [Symbol.asyncDispose](): Promise<void> {
    this.#isClosed = true;
    this.#changing = this.#changing.then(() => this.#stop());
    await this.#changing;
    this.#flushWaiting();
    await this.#writing;
  }

  async #reconfigure(): Promise<void> {
    const { config, log, supervise, clock } = this.#options;
    const { enabled, tls } = config();
    this.#isExcluded = matcherOf(tls.exclude);
    if (!enabled || this.#isClosed) return await this.#stop();
    if (this.#supervisor) return this.#sendSettings();
    const settings = this.#settings();
    this.#sentSettings = this.#textOf(settings);
    this.#supervisor = supervise({
      settings,
      ownPids: this.#ownPids,
      onReport: (report) => this.#take(report),
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
    return trafficSettings(config(), cores, isAnyExcluded ? directory.pidsOf(this.#isExcluded) : []);
  }

  /** Of everything that goes with an order of settings. */
  #textOf(settings: TrafficSettings): string {
    this.#ownPids.splice(0, this.#ownPids.length, ...this.#options.ownPids());
    return JSON.stringify([settings, this.#ownPids]);
  }

  #sendSettings(): void {
    if (!this.#supervisor) return;
    const settings = this.#settings();
    const text = this.#textOf(settings);
    if (text === this.#sentSettings) return;
    this.#sentSettings = text;
    this.#supervisor.changeSettings(settings);
  }

  #problem(): string | null {
    if (!this.#options.config().enabled) return "traffic.enabled is false in the agent's config";
    const state = this.#supervisor?.status().state;
    return state?.hooks === "off" ? (state.problem ?? "the kernel's hooks are off") : null;
  }

  /** Whoever is known to be off needs not be waited for. */
  #pendingStep(): string | null {
    if (!this.#options.config().enabled) return null;
    const state = this.#supervisor?.status().state;
    if (!state) return "the traffic process is loading";
    return this.#isScanned || state.hooks === "off" ? null : "the first scan for services is not finished";
  }

  #take(report: TrafficReport): void {
    switch (report.kind) {
      case "window":
        return this.#takeWindow(report);
      case "state":
        return this.#takeState(report);
      case "captured":
        // Closed also to a capture that was faster than the process which should not have read it.
        if (report.isTls && this.#isExcluded(this.#options.directory.serviceOf(report.pid, null) ?? "")) return;
        return this.captures.accept(report);
      case "capture-ended":
        return this.captures.accept(report);
      case "connections":
        this.#loseConnections(report.lost);
        return this.#options.connections?.accept(report);
      case "connections-state":
        return this.#options.connections?.accept(report);
    }
  }

  /** Neither told nor added up. */
  #loseConnections(count: number): void {
    if (count === 0) return;
    const { clock } = this.#options;
    this.#figures.addLoss("connections-full", count);
    const time = { at: Math.round(clock.wallMs() * 1_000), mono_ms: Math.round(clock.monotonicMs()) };
    this.#store([], [{ ...time, loss: "connections-full", count, window_ms: 0 }]);
  }

  #takeWindow(window: TrafficWindow): void {
    const { config, directory, names } = this.#options;
    const { maxRows, disabledProtocols } = config();
    if (this.#isScanned || this.#waiting.length >= maxWaitingWindows) this.#flushWaiting();
    this.#figures.add(window);
    this.#peers.add(window.peerNames);
    names.add(window.names, (pid) => directory.headOf(pid));
    const windowMs = Math.max(1, Number(window.toNs - window.fromNs) / 1e6);
    const place = { time: this.#timeOf(window), windowMs };
    const groups = window.requests.filter(({ protocol, count }) => count > 0 && !disabledProtocols.includes(protocol));
    const { named, unknown, closed } = this.#name(groups, false);
    if (unknown.length > 0) this.#wait({ ...place, groups: unknown });
    const { rows, foldedRequests } = trafficRows(named, { ...place, maxRows });
    this.#figures.addLoss("routes-full", foldedRequests);
    this.#figures.addLoss("tls-opaque", closed);
    const losses = new Map(window.losses.map(({ loss, count }) => [loss, count]));
    losses.set("routes-full", (losses.get("routes-full") ?? 0) + foldedRequests);
    losses.set("tls-opaque", (losses.get("tls-opaque") ?? 0) + closed);
    const lossRows = [...losses].flatMap(([loss, count]) =>
      count > 0 ? [{ ...place.time, loss, count: Math.round(count), window_ms: Math.round(windowMs) }] : [],
    );
    this.#store(rows, lossRows);
  }

  /** The end of a window on the clocks of stored rows. */
  #timeOf({ toNs }: TrafficWindow): SampleTime {
    const { clock } = this.#options;
    const nowMs = clock.monotonicMs();
    const agoMs = nowMs - Number(toNs / 1_000n) / 1_000;
    const pastMs = agoMs >= 0 && agoMs < maxAgeMs ? agoMs : 0;
    return { at: Math.round((clock.wallMs() - pastMs) * 1_000), mono_ms: Math.round(nowMs - pastMs) };
  }

  /** `isLast`: who is unknown now stays so, and is called what the kernel called it. */
  #name(groups: readonly RequestGroup[], isLast: boolean): { named: NamedGroup[]; unknown: RequestGroup[]; closed: number } {
    const { directory } = this.#options;
    const named: NamedGroup[] = [];
    const unknown: RequestGroup[] = [];
    const callers = this.#callersIn(groups);
    let closed = 0;
    for (const group of groups) {
      const known = directory.serviceOf(group.pid, group.role === "server" ? group.serverPort : null);
      const service = known ?? (isLast ? (group.processName ?? "unknown") : undefined);
      if (service === undefined) unknown.push(group);
      // A process may have been read before the scan that found out whose it is.
      else if (group.isTls && this.#isExcluded(service)) closed += group.count;
      else named.push({ group, service, peer: this.#peerOf(group, callers) });
    }
    return { named, unknown, closed };
  }

  /** By port, who on this host asked in these groups: of a caller on loopback a server knows nothing else. Null stands for several, or unknown ones. */
  #callersIn(groups: readonly RequestGroup[]): Map<number, string | null> {
    const callers = new Map<number, string | null>();
    for (const { role, pid, peerAddress, serverPort } of groups) {
      if (role !== "client" || !isLoopback(peerAddress)) continue;
      const service = this.#options.directory.serviceOf(pid, null) ?? null;
      const known = callers.get(serverPort);
      callers.set(serverPort, known === undefined || known === service ? service : null);
    }
    return callers;
  }

  #peerOf({ pid, role, peerAddress, serverPort }: RequestGroup, callers: ReadonlyMap<number, string | null>): string | null {
    const { directory } = this.#options;
    if (role === "server") {
      // A scan may have missed one that came and went.
      const seen = isLoopback(peerAddress) ? callers.get(serverPort) : undefined;
      return seen === undefined ? directory.callerOf(pid, serverPort, peerAddress) : seen;
    }
    return directory.listenerAt(pid, peerAddress, serverPort) ?? this.#peers.nameOf(peerAddress, serverPort);
  }

  #wait(waiting: Waiting): void {
    this.#waiting.push(waiting);
    const nowMs = this.#options.clock.monotonicMs();
    if (nowMs < this.#nextRescanMs) return;
    this.#nextRescanMs = nowMs + this.#rescanPauseMs;
    this.#options.rescan();
  }

  #flushWaiting(): void {
    for (const waiting of this.#waiting) this.#store(this.#rowsOf(this.#name(waiting.groups, true).named, waiting), []);
    this.#waiting = [];
  }

  #rowsOf(named: readonly NamedGroup[], { time, windowMs }: Waiting): RedRow[] {
    return trafficRows(named, { time, windowMs, maxRows: this.#options.config().maxRows }).rows;
  }

  #takeState(state: TrafficState): void {
    this.captures.changed();
    if (state.hooks === "off" && state.problem !== null) {
      this.#options.log.warn(`Requests are not watched: ${state.problem}`);
      this.#options.connections?.explain(state.problem);
    }
    if (state.step === this.#step) return;
    const before = this.#step;
    this.#step = state.step;
    const isLess = state.step > before;
    this.#tell(
      "ladder-stepped",
      isLess ? "warning" : "info",
      `Requests are watched in ${isLess ? "less" : "more"} detail: step ${state.step} after ${before}`,
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
    this.#tell("traffic-process-restarted", "warning", `The traffic process ended (${reason}) and is started again`, {
      reason,
      restartMs: Math.round(restartMs),
    });
  }

  #tell(kind: string, severity: "info" | "warning", message: string, details: Record<string, unknown>): void {
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
    this.#write(() => store.append(event, [row]));
  }

  #store(rows: readonly RedRow[], losses: readonly RowOf<typeof trafficLoss.columns>[]): void {
    const { store } = this.#options;
    if (rows.length === 0 && losses.length === 0) return;
    this.#write(() =>
      Promise.all([
        ...(rows.length > 0 ? [store.append(red, rows)] : []),
        ...(losses.length > 0 ? [store.append(trafficLoss, losses)] : []),
      ]),
    );
  }

  #write(append: () => Promise<unknown>): void {
    const { log } = this.#options;
    this.#writing = this.#writing.then(async () => {
      try {
        await append();
        if (this.#lastFailure !== "") log.info("requests are stored again");
        this.#lastFailure = "";
      } catch (error) {
        // Said once, not with every window: the losses are counted by the store and reported with the data.
        const { message, code } = CoralError.from(error);
        log[message === this.#lastFailure ? "debug" : "error"](`Cannot store requests: ${message}`, { code });
        this.#lastFailure = message;
      }
    });
  }
}
