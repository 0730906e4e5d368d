/**
 * Starts the profile process, receives its windows, and restarts it when it exits unexpectedly. Runs in the agent, which survives any
 * failure of it.
 */

import { type ProcessStatus, SupervisedProcess, type SuperviseOptions } from "../base/supervised-process.ts";
import type { ProfileOrder, ProfileReport, ProfileSettings, ProfileState } from "./core/messages.ts";

export interface SuperviseProfilesOptions extends SuperviseOptions {
  settings: ProfileSettings;
  /** Must not throw. */
  onReport: (report: ProfileReport) => void;
}

export type ProfileStatus = ProcessStatus<ProfileState>;

export interface ProfileSupervisor extends AsyncDisposable {
  status(): ProfileStatus;
}

/**
 * Like those of the traffic process: a small heap, one helper thread, no compilation of cold functions. At the heap limit the process
 * aborts and is restarted. Most objects live until their window ends; a smaller young generation would copy them in each collection.
 */
const engineFlags = [
  "--optimize-for-size",
  "--min-semi-space-size=1",
  "--max-semi-space-size=4",
  "--max-old-space-size=128",
  "--v8-pool-size=1",
  "--no-sparkplug",
];

export function superviseProfiles(options: SuperviseProfilesOptions): ProfileSupervisor {
  const { settings, onReport, ...common } = options;
  return new SupervisedProcess<ProfileOrder, ProfileReport>({
    ...common,
    name: "profile process",
    file: "profile-process.js",
    engineFlags,
    // One thread waits for the ring to fill; one more is enough for loading.
    poolThreads: 2,
    firstOrder: () => ({ kind: "settings", settings }),
    offState: (problem) => ({ kind: "state", state: "off", problem, hz: 0 }),
    onReport,
    windowMs: () => settings.windowMs,
    onRestart: (downMs) => {
      const seconds = Math.round(downMs / 1_000);
      if (seconds > 0) onReport(lostWindow(downMs, seconds));
    },
  });
}

/** A window that only counts the seconds without a process. */
function lostWindow(windowMs: number, seconds: number): ProfileReport {
  const losses = [{ loss: "away-seconds" as const, count: seconds }];
  return { kind: "window", windowMs, periodUs: 0, frames: [], stacks: [], losses, cost: { bpfNs: null, cpuNs: 0, rssBytes: 0 } };
}
