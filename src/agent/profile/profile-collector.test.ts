import { afterEach, beforeEach, describe, expect, it } from "vitest";
import type { Clock } from "../../base/clock.ts";
import { createLogger } from "../../base/log.ts";
import type { AgentProfileConfig } from "../../config/index.ts";
import type { ProfileReport, ProfileStatus, ProfileWindow, SuperviseProfilesOptions } from "../../profile/index.ts";
import type { AgentStore } from "../../store/agent/index.ts";
import { ProfileCollector } from "./profile-collector.ts";
import { profileCapability } from "./profile-status.ts";

let nowMs: number;
let config: AgentProfileConfig;
let appended: { signal: string; rows: Record<string, unknown>[] }[];
let logged: string[];
let failure: Error | undefined;
let running: { options: SuperviseProfilesOptions; status: ProfileStatus }[];
let ended: number;
let collector: ProfileCollector;
const clock: Clock = { wallMs: () => 1_000_000_000 + nowMs, monotonicMs: () => nowMs };
const store: Pick<AgentStore, "append"> = {
  append: async (signal, rows) => {
    if (failure !== undefined) throw failure;
    appended.push({ signal: signal.name, rows: [...rows] as Record<string, unknown>[] });
    return { firstSeq: 1, lastSeq: rows.length };
  },
};

function supervise(options: SuperviseProfilesOptions) {
  const status: ProfileStatus = { state: null, pid: 7, restarts: 0, lastEnd: null };
  running.push({ options, status });
  return {
    status: () => status,
    [Symbol.asyncDispose]: async () => {
      ended++;
    },
  };
}

beforeEach(async () => {
  nowMs = 100_000;
  appended = [];
  logged = [];
  failure = undefined;
  running = [];
  ended = 0;
  config = { enabled: true, hz: 19, intervalMs: 30_000, maxStacks: 1_000, cpuBudgetRatio: 0.005 };
  collector = new ProfileCollector({
    store,
    directory: { serviceOf: (pid) => (pid === 10 ? { service: "unit:api", name: "api" } : undefined) },
    config: () => config,
    supervise,
    cores: 4,
    clock,
    log: createLogger("profiles", "info", ({ level, message }) => logged.push(`${level}: ${message}`)),
  });
  await collector.reconfigure();
});
afterEach(() => collector[Symbol.asyncDispose]());

/** A report of the process; a state report also becomes its status. */
function report(one: ProfileReport): void {
  const last = running.at(-1);
  if (last === undefined) throw new Error("no process runs");
  if (one.kind === "state") last.status.state = one;
  last.options.onReport(one);
}

const windowOf = (more: Partial<ProfileWindow> = {}): ProfileWindow => ({
  kind: "window",
  windowMs: 30_000,
  periodUs: 52_632,
  frames: [{ name: "main", module: "api", kind: "native" }],
  stacks: [
    {
      pid: 10,
      startedNs: 1e9,
      processName: "api",
      threadName: "worker",
      isKernelThread: false,
      build: null,
      frames: [0],
      isWhole: true,
      samples: 3,
    },
  ],
  losses: [],
  cost: { bpfNs: 1, cpuNs: 2, rssBytes: 3 },
  ...more,
});
const signals = (): string[] => appended.map(({ signal }) => signal);

describe("ProfileCollector", () => {
  it("stores rows under their service, each stack once and before its rows, and losses", async () => {
    report(windowOf());
    await expect.poll(signals).toEqual(["profile_stack", "profile"]);
    report(windowOf({ losses: [{ loss: "ring-full", count: 4 }] }));
    await collector[Symbol.asyncDispose]();
    expect(signals()).toEqual(["profile_stack", "profile", "profile", "profile_loss"]);
    expect(appended[1]?.rows).toMatchObject([{ service: "unit:api", pid: 10, thread: "worker", samples: 3, cpu_us: 157_896 }]);
    expect(appended[3]?.rows).toMatchObject([{ loss: "ring-full", count: 4, window_ms: 30_000 }]);
    expect(collector.readings().samples).toBe(6);
  });

  it("restarts the process for another config, and ends it when profiles are disabled", async () => {
    expect(running[0]?.options.settings).toEqual({ hz: 19, windowMs: 30_000, maxStacks: 1_000, cpuBudget: 0.02 });
    await collector.reconfigure();
    expect(running).toHaveLength(1);
    config = { ...config, hz: 9 };
    await collector.reconfigure();
    expect([running.length, ended, running[1]?.options.settings.hz]).toEqual([2, 1, 9]);
    report(windowOf());
    expect(collector.readings().cost).toEqual({ bpfNs: 1, cpuNs: 2, rssBytes: 3, windowMs: 30_000 });
    config = { ...config, enabled: false };
    await collector.reconfigure();
    expect([running.length, ended]).toEqual([2, 2]);
    expect(collector.readings()).toMatchObject({ isEnabled: false, status: null, cost: null });
    expect(profileCapability(collector.readings())).toMatchObject({ available: false, reason: expect.stringMatching(/profiles\.enabled/) });
  });

  it("reports a host without the privilege, with the reason and the fix", () => {
    expect(profileCapability(collector.readings())).toEqual({ name: "cpu-profile", available: true, reason: "" });
    report({ kind: "state", state: "off", problem: "the kernel refuses perf events (EACCES)", hz: 0 });
    expect(logged).toEqual(["warn: CPU profiles are unavailable: the kernel refuses perf events (EACCES)"]);
    expect(profileCapability(collector.readings())).toEqual({
      name: "cpu-profile",
      available: false,
      reason:
        "the kernel refuses perf events (EACCES); run the agent as root or with CAP_BPF and CAP_PERFMON; coral doctor shows what is missing",
    });
  });

  it("logs a failing store once, rewrites the stack, and logs the recovery", async () => {
    failure = new Error("disk full");
    report(windowOf());
    report(windowOf());
    await expect.poll(() => logged).toEqual(["error: cannot store CPU profiles: disk full; counting the rows as lost"]);
    failure = undefined;
    report(windowOf());
    await expect.poll(() => logged.at(-1)).toBe("info: storing CPU profiles again");
    expect(signals()).toEqual(["profile_stack", "profile"]);
  });
});
