/** The main function of the traffic process: takes orders from the agent's channel, sends reports, and exits when the channel closes. */

import { CoralError } from "../base/errors.ts";
import { createLogger, formatJsonLine, type Logger, streamSink } from "../base/log.ts";
import { ResourceStack } from "../base/resource-stack.ts";
import { exitCodeOff } from "../base/supervised-process.ts";
import { releaseMemory } from "../bpf/index.ts";
import { cleanCodeRanges, lockedMapBytes, raiseThreadPriority } from "../host/index.ts";
import { preferSpeed } from "./core/engine-flags.ts";
import type { TrafficOrder, TrafficReport, TrafficSettings, TrafficState } from "./core/messages.ts";
import { PollTimer } from "./core/poll-timer.ts";
import { type ConnectionWatch, openConnectionWatch } from "./kernel/connection-watch.ts";
import { ignoreProcesses, type KernelHooks, openKernelHooks } from "./kernel/kernel-hooks.ts";
import { type OpenedParts, openTrafficParts } from "./traffic-parts.ts";
import { TrafficRuntime } from "./traffic-runtime.ts";

/** The process's end of the channel. */
export interface TrafficChannel {
  send(message: TrafficReport, sent: () => void): void;
  onOrder(listener: (order: TrafficOrder) => void): void;
  onClose(listener: () => void): void;
  exit(code: number): void;
  /** Exits at once, without waiting for calls on other threads. */
  end(): void;
}

/** Unsent reports above which captured requests are dropped; windows wait. */
const maxUnsent = 256;
const releaseIntervalMs = 60_000;
/** Nice levels. At normal priority this process may wait for seconds on a busy host while its ring overflows. Its CPU budget limits what it uses. */
const priorityBoost = 10;

/** Runs until the channel closes; then the process exits at once, and the kernel unloads its BPF programs. */
export function runTrafficProcess(channel: TrafficChannel): void {
  const log = createLogger("traffic", "info", streamSink(process.stderr, formatJsonLine));
  const traffic = new TrafficProcess(channel, log);
  channel.onClose(() => channel.end());
  channel.onOrder((order) => traffic.onOrder(order));
}

interface Running {
  settings: TrafficSettings;
  timer: PollTimer;
  /** Null if requests cannot be observed, only connections. */
  requests: { hooks: KernelHooks; runtime: TrafficRuntime; parts: OpenedParts } | null;
  resources: ResourceStack;
}

class TrafficProcess {
  readonly #channel: TrafficChannel;
  readonly #log: Logger;
  #unsent = 0;
  #unsentWindows = 0;
  #running: Running | undefined;
  #isPriorityRaised = false;
  /** Set before `#running`: scan marks need it while the programs for requests still load. */
  #connections: ConnectionWatch | undefined;
  /** Orders run one after the other: loading takes a second. */
  #work: Promise<void> = Promise.resolve();

  constructor(channel: TrafficChannel, log: Logger) {
    this.#channel = channel;
    this.#log = log;
  }

  onOrder(order: TrafficOrder): void {
    // Not queued: the agent expects the mark within two seconds, and loading the programs for requests may take longer.
    if (order.kind === "scan") {
      try {
        this.#connections?.markScan(order.phase, order.mark);
      } catch (error) {
        // As with every other order: exit, and let the agent restart this process.
        this.#end(error);
      }
      return;
    }
    this.#work = this.#work.then(() => this.#handle(order)).catch((error: unknown) => this.#end(error));
  }

  async #handle(order: Exclude<TrafficOrder, { kind: "scan" }>): Promise<void> {
    switch (order.kind) {
      case "settings":
        await this.#apply(order.settings, order.ownPids);
        return;
      case "capture":
        this.#running?.requests?.parts.startCapture(order.order);
        return;
      case "stop-capture":
        this.#running?.requests?.parts.stopCapture(order.captureId);
        return;
    }
  }

  async #apply(settings: TrafficSettings, ownPids: readonly number[]): Promise<void> {
    const running = this.#running;
    if (running !== undefined && isSameLoad(running.settings, settings)) {
      running.settings = settings;
      running.timer.setWindow(settings.windowMs);
      if (running.requests) ignoreProcesses(running.requests.hooks.object, ownPids);
      running.requests?.runtime.change(settings);
      running.requests?.parts.applySettings(settings);
      return;
    }
    this.#running = undefined;
    this.#connections = undefined;
    await running?.resources[Symbol.asyncDispose]();
    this.#running = await this.#open(settings, ownPids);
  }

  /** Throws when neither requests nor connections can be observed on this host. */
  async #open(settings: TrafficSettings, ownPids: readonly number[]): Promise<Running> {
    const resources = new ResourceStack();
    const timer = resources.use(new PollTimer(settings.windowMs));
    const connections = await this.#openConnections(settings, timer, resources);
    let requests: Running["requests"] = null;
    try {
      requests = await this.#openRequests(settings, ownPids, timer, connections, resources);
    } catch (error) {
      const problem = CoralError.from(error);
      if (problem.code !== "unsupported" || connections === null) throw error;
      this.#send(stateOff(problem.message));
    }
    // Not earlier: threads inherit the priority, and those that load programs burn a second of CPU.
    this.#raisePriority();
    // Loading takes tens of megabytes for a moment: libbpf reads the types of the whole kernel.
    releaseMemory(cleanCodeRanges);
    const releasing = setInterval(releaseMemory, releaseIntervalMs, cleanCodeRanges);
    resources.defer(() => clearInterval(releasing));
    return { settings, timer, requests, resources };
  }

  #raisePriority(): void {
    if (this.#isPriorityRaised) return;
    this.#isPriorityRaised = true;
    raiseThreadPriority(priorityBoost);
  }

  async #openConnections(settings: TrafficSettings, timer: PollTimer, resources: ResourceStack): Promise<ConnectionWatch | null> {
    try {
      const { maxConnections } = settings;
      const watch = resources.use(await openConnectionWatch({ maxConnections, timer, report: (report) => this.#send(report) }));
      this.#connections = watch;
      this.#send({ kind: "connections-state", problem: null });
      return watch;
    } catch (error) {
      // Requests may still be observable, and socket scans continue.
      this.#send({ kind: "connections-state", problem: CoralError.from(error).message });
      return null;
    }
  }

  async #openRequests(
    settings: TrafficSettings,
    ownPids: readonly number[],
    timer: PollTimer,
    connections: ConnectionWatch | null,
    resources: ResourceStack,
  ): Promise<Running["requests"]> {
    const hooks = resources.use(await openKernelHooks({ settings, ownPids }));
    const report = (message: TrafficReport): void => this.#send(message);
    const parts = resources.use(openTrafficParts({ hooks, settings, report, log: this.#log }));
    // A window reports the cost of both objects.
    const objects = connections === null ? [hooks.object] : [hooks.object, connections.object];
    const maps = objects.flatMap((object) => object.maps());
    const runtime = resources.use(
      new TrafficRuntime({
        settings,
        hooks: hooks.kind,
        ring: hooks.object.ring("events"),
        timer,
        programs: { stats: () => objects.flatMap((object) => object.stats()), enableStats: () => hooks.object.enableStats() },
        parts,
        mapBytes: () => maps.reduce((sum, { fd }) => sum + lockedMapBytes(fd), 0),
        report,
        onBusy: preferSpeed,
        isReady: () => this.#unsentWindows === 0,
        log: this.#log,
      }),
    );
    runtime.start();
    hooks.object.watchRing("events", () => runtime.wake());
    return { hooks, runtime, parts };
  }

  #send(report: TrafficReport): void {
    if (report.kind === "captured" && this.#unsent >= maxUnsent) return;
    const windows = report.kind === "window" ? 1 : 0;
    this.#unsent++;
    this.#unsentWindows += windows;
    this.#channel.send(report, () => {
      this.#unsent--;
      this.#unsentWindows -= windows;
    });
  }

  /** A host that is not supported is reported once; anything else is a crash, and the agent restarts the process. */
  #end(error: unknown): void {
    const problem = CoralError.from(error);
    if (problem.code === "unsupported") {
      this.#channel.send(stateOff(problem.message), () => this.#channel.exit(exitCodeOff));
      return;
    }
    this.#log.error(problem.message, { error });
    this.#channel.exit(1);
  }
}

function stateOff(problem: string): TrafficState {
  return { kind: "state", hooks: "off", problem, tls: [], step: 0 };
}

/** Whether the loaded programs can stay: all other settings can change while they run. */
function isSameLoad(before: TrafficSettings, after: TrafficSettings): boolean {
  return (
    before.maxRequestKinds === after.maxRequestKinds &&
    before.maxConnections === after.maxConnections &&
    before.maxRoutesPerService === after.maxRoutesPerService &&
    before.ringBytes === after.ringBytes &&
    before.tls.isEnabled === after.tls.isEnabled
  );
}
