/** Receives windows of the profile process, finds the services of their processes, and stores the rows. Idle while there is no such process. */

import type { Clock } from "../../base/clock.ts";
import type { Logger } from "../../base/log.ts";
import type { AgentProfileConfig } from "../../config/index.ts";
import type {
  ProfileCost,
  ProfileReport,
  ProfileStatus,
  ProfileSupervisor,
  ProfileWindow,
  SuperviseProfilesOptions,
} from "../../profile/index.ts";
import type { AgentStore } from "../../store/agent/index.ts";
import { profile, profileLoss, profileStack, type SampleTime } from "../../store/signals/index.ts";
import { OrderedAppends } from "../traffic/ordered-appends.ts";
import type { TrafficDirectory } from "../traffic/traffic-directory.ts";
import { KnownStacks } from "./known-stacks.ts";
import { profileRows } from "./profile-rows.ts";

export interface ProfileCollectorOptions {
  store: Pick<AgentStore, "append">;
  directory: Pick<TrafficDirectory, "serviceOf">;
  /** Read again whenever `reconfigure` is called. */
  config: () => AgentProfileConfig;
  supervise: (options: SuperviseProfilesOptions) => ProfileSupervisor;
  /** Cores of the host. */
  cores: number;
  clock: Clock;
  log: Logger;
}

/** For status and metrics. */
export interface ProfileReadings {
  isEnabled: boolean;
  status: ProfileStatus | null;
  /** Of the last window. */
  cost: (ProfileCost & { windowMs: number }) | null;
  samples: number;
}

/** Starts and stops the profile process by the config, and writes one batch per window. */
export class ProfileCollector implements AsyncDisposable {
  readonly #options: ProfileCollectorOptions;
  readonly #known: KnownStacks;
  readonly #appends: OrderedAppends;
  #supervisor: ProfileSupervisor | undefined;
  #settings = "";
  #cost: ProfileReadings["cost"] = null;
  #samples = 0;
  #isClosed = false;
  /** Changes are serialised. */
  #changing: Promise<void> = Promise.resolve();

  constructor(options: ProfileCollectorOptions) {
    this.#options = options;
    this.#appends = new OrderedAppends("CPU profiles", options.log);
    this.#known = new KnownStacks(() => options.clock.monotonicMs());
  }

  /** Starts, stops or restarts the profile process to match the config. */
  reconfigure(): Promise<void> {
    this.#changing = this.#changing.then(() => this.#reconfigure());
    return this.#changing;
  }

  readings(): ProfileReadings {
    return {
      isEnabled: this.#options.config().enabled,
      status: this.#supervisor?.status() ?? null,
      cost: this.#cost,
      samples: this.#samples,
    };
  }

  /** Stops the process and waits for its rows. Idempotent. */
  async [Symbol.asyncDispose](): Promise<void> {
    this.#isClosed = true;
    this.#changing = this.#changing.then(() => this.#stop());
    await this.#changing;
    await this.#appends.settled();
  }

  async #reconfigure(): Promise<void> {
    const { config, supervise, cores, clock, log } = this.#options;
    const { enabled, hz, intervalMs, maxStacks, cpuBudgetRatio } = config();
    const text = JSON.stringify(config());
    if (this.#supervisor !== undefined && text === this.#settings) return;
    await this.#stop();
    if (!enabled || this.#isClosed) return;
    this.#settings = text;
    this.#supervisor = supervise({
      settings: { hz, windowMs: intervalMs, maxStacks, cpuBudget: cpuBudgetRatio * cores },
      onReport: (report) => this.#accept(report),
      clock,
      log,
    });
  }

  async #stop(): Promise<void> {
    const supervisor = this.#supervisor;
    this.#supervisor = undefined;
    this.#cost = null;
    await supervisor?.[Symbol.asyncDispose]();
  }

  #accept(report: ProfileReport): void {
    if (report.kind === "window") return this.#store(report);
    const { log } = this.#options;
    if (report.state === "off") log.warn(`CPU profiles are unavailable: ${report.problem ?? "unknown reason"}`);
    if (report.state === "paused") log.warn("CPU profiling paused: it exceeded profiles.cpu_budget; resuming automatically later");
  }

  #store(window: ProfileWindow): void {
    const { clock, store, directory } = this.#options;
    const time: SampleTime = { at: Math.round(clock.wallMs() * 1_000), mono_ms: Math.round(clock.monotonicMs()) };
    if (window.periodUs > 0) this.#cost = { ...window.cost, windowMs: window.windowMs };
    const { rows, stacks } = profileRows(window, time, (pid, span) => directory.serviceOf(pid, null, span)?.service);
    for (const row of rows) this.#samples += row.samples;
    const fresh = this.#known.unwritten(stacks);
    const losses = window.losses.map(({ loss, count }) => ({ ...time, loss, count, window_ms: Math.round(window.windowMs) }));
    this.#appends.add(async () => {
      // Stacks first: a row refers to its stack.
      if (fresh.length > 0) await store.append(profileStack, fresh);
      if (rows.length > 0) await store.append(profile, rows);
      if (losses.length > 0) await store.append(profileLoss, losses);
      this.#known.written(fresh);
    });
  }
}
