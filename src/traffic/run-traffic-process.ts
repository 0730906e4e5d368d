/** The traffic process, seen from inside: takes orders from the agent's channel, sends reports, and ends with the channel. */

import { CoralError } from "../base/errors.ts";
import { createLogger, formatJsonLine, type Logger, streamSink } from "../base/log.ts";
import { ResourceStack } from "../base/resource-stack.ts";
import { lockedMapBytes, raiseThreadPriority } from "../host/index.ts";
import { Beat } from "./core/beat.ts";
import { preferSpeed } from "./core/engine-flags.ts";
import type { TrafficOrder, TrafficReport, TrafficSettings, TrafficState } from "./core/messages.ts";
import { type ConnectionWatch, openConnectionWatch } from "./kernel/connection-watch.ts";
import { ignoreProcesses, type KernelHooks, openKernelHooks } from "./kernel/kernel-hooks.ts";
import { releaseMemory } from "./release-memory.ts";
import { exitCodeOff } from "./supervise-traffic.ts";
import { type OpenedParts, openTrafficParts } from "./traffic-parts.ts";
import { TrafficRuntime } from "./traffic-runtime.ts";

/** The process's end of the channel. */
export interface TrafficChannel {
  send(message: TrafficReport, sent: () => void): void;
  onOrder(listener: (order: TrafficOrder) => void): void;
  onClose(listener: () => void): void;
  exit(code: number): void;
  /** Ends at once, without waiting for calls on other threads. */
  end(): void;
}

/** Reports on their way; captured requests above it are dropped, windows wait. */
const maxUnsent = 256;
const releaseIntervalMs = 60_000;
/** On a host whose processors are all busy this process would wait for seconds, while its ring runs over. Its budget bounds what it takes from others. */
const stepsAhead = 10;

/** Runs until the channel closes; then the process ends at once, and the kernel drops every program with it. */
export function runTrafficProcess(channel: TrafficChannel): void {
  const log = createLogger("traffic", "info", streamSink(process.stderr, formatJsonLine));
  const traffic = new TrafficProcess(channel, log);
  channel.onClose(() => channel.end());
  channel.onOrder((order) => traffic.take(order));
}

interface Running {
  settings: TrafficSettings;
  beat: Beat;
  /** Null where requests cannot be seen, and only connections are watched. */
  requests: { hooks: KernelHooks; runtime: TrafficRuntime; parts: OpenedParts } | null;
  resources: ResourceStack;
}

class TrafficProcess {
  readonly #channel: TrafficChannel;
  readonly #log: Logger;
  #unsent = 0;
  #unsentWindows = 0;
  #running: Running | undefined;
  #isAhead = false;
  /** Before the rest of what runs is there. */
  #connections: ConnectionWatch | undefined;
  /** Orders are carried out one after the other: loading takes a second. */
  #work: Promise<void> = Promise.resolve();

  constructor(channel: TrafficChannel, log: Logger) {
    this.#channel = channel;
    this.#log = log;
  }

  take(order: TrafficOrder): void {
    // At once: whoever asks relies on an answer within two seconds, and the programs for requests may take longer to load.
    if (order.kind === "scan") {
      try {
        this.#connections?.markScan(order.phase, order.mark);
      } catch (error) {
        // As with every other order: this process is of no use then, and is started again.
        this.#end(error);
      }
      return;
    }
    this.#work = this.#work.then(() => this.#carryOut(order)).catch((error: unknown) => this.#end(error));
  }

  async #carryOut(order: Exclude<TrafficOrder, { kind: "scan" }>): Promise<void> {
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
      running.beat.setWindow(settings.windowMs);
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

  /** Throws when nothing at all can be watched here. */
  async #open(settings: TrafficSettings, ownPids: readonly number[]): Promise<Running> {
    const resources = new ResourceStack();
    const beat = resources.use(new Beat(settings.windowMs));
    const connections = await this.#openConnections(settings, beat, resources);
    let requests: Running["requests"] = null;
    try {
      requests = await this.#openRequests(settings, ownPids, beat, connections, resources);
    } catch (error) {
      const problem = CoralError.from(error);
      if (problem.code !== "unsupported" || connections === null) throw error;
      this.#send(stateOff(problem.message));
    }
    // Not before: threads that load, which takes a second of a processor, keep the priority that this one had when it started them.
    this.#goAhead();
    // Loading takes tens of megabytes for a moment: libbpf reads the types of the whole kernel.
    releaseMemory();
    const timer = setInterval(releaseMemory, releaseIntervalMs);
    resources.defer(() => clearInterval(timer));
    return { settings, beat, requests, resources };
  }

  #goAhead(): void {
    if (this.#isAhead) return;
    this.#isAhead = true;
    raiseThreadPriority(stepsAhead);
  }

  async #openConnections(settings: TrafficSettings, beat: Beat, resources: ResourceStack): Promise<ConnectionWatch | null> {
    try {
      const { maxConnections } = settings;
      const watch = resources.use(await openConnectionWatch({ maxConnections, beat, report: (report) => this.#send(report) }));
      this.#connections = watch;
      this.#send({ kind: "connections-state", problem: null });
      return watch;
    } catch (error) {
      // Requests may be seen nevertheless; the scans of sockets go on.
      this.#send({ kind: "connections-state", problem: CoralError.from(error).message });
      return null;
    }
  }

  async #openRequests(
    settings: TrafficSettings,
    ownPids: readonly number[],
    beat: Beat,
    connections: ConnectionWatch | null,
    resources: ResourceStack,
  ): Promise<Running["requests"]> {
    const hooks = resources.use(await openKernelHooks({ settings, ownPids }));
    const report = (message: TrafficReport): void => this.#send(message);
    const parts = resources.use(openTrafficParts({ hooks, settings, report, log: this.#log }));
    // Both objects cost, and a window tells what all of it costs.
    const objects = connections === null ? [hooks.object] : [hooks.object, connections.object];
    const maps = objects.flatMap((object) => object.maps());
    const runtime = resources.use(
      new TrafficRuntime({
        settings,
        hooks: hooks.kind,
        ring: hooks.object.ring("events"),
        beat,
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

  /** What cannot work here is told once; anything else is a crash, and the agent starts the process again. */
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

/** Whether nothing has to be loaded anew: everything else can change while programs run. */
function isSameLoad(before: TrafficSettings, after: TrafficSettings): boolean {
  return (
    before.maxRequestKinds === after.maxRequestKinds &&
    before.maxConnections === after.maxConnections &&
    before.maxRoutesPerService === after.maxRoutesPerService &&
    before.ringBytes === after.ringBytes &&
    before.tls.isEnabled === after.tls.isEnabled
  );
}
