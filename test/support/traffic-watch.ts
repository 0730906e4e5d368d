/** Runs the traffic process as the agent does and collects its reports. */

import { spawnSync } from "node:child_process";
import { readdirSync, readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { createBackoff } from "../../src/base/backoff.ts";
import { createLogger } from "../../src/base/log.ts";
import {
  type LossKind,
  type RequestGroup,
  superviseTraffic,
  type TrafficReport,
  type TrafficSettings,
  type TrafficSupervisor,
} from "../../src/traffic/index.ts";
import { waitFor } from "./wait-for.ts";

const childPath = fileURLToPath(new URL("../../dist/traffic-process.js", import.meta.url));

const settings: TrafficSettings = {
  windowMs: 1_000,
  maxRequestKinds: 2_048,
  maxConnections: 4_096,
  maxRoutesPerService: 100,
  ringBytes: 4 << 20,
  tls: { isEnabled: false, excludedExecutables: [] },
  // No CPU limit: load of the shared machine must not change the results.
  cpuBudget: 1,
};

export class TrafficWatch implements AsyncDisposable {
  readonly reports: TrafficReport[] = [];
  /** Reason of an unexpected exit. */
  readonly ends: string[] = [];
  /** Error logs, for example of a decoder that threw. */
  readonly problems: string[] = [];
  readonly supervisor: TrafficSupervisor;

  private constructor(changed: Partial<TrafficSettings>) {
    this.supervisor = superviseTraffic({
      settings: { ...settings, ...changed },
      ownPids: [],
      onReport: (report) => this.reports.push(report),
      onUnexpectedEnd: (reason) => this.ends.push(reason),
      log: createLogger("test", "error", ({ message }) => this.problems.push(message)),
      childPath,
      backoff: createBackoff({ initialMs: 100, maxMs: 200 }),
    });
  }

  /** Resolves when the probes are attached. */
  static async open(changed: Partial<TrafficSettings> = {}): Promise<TrafficWatch> {
    const watch = new TrafficWatch(changed);
    await waitFor("the hooks", () => watch.supervisor.status().state?.hooks === "sockets");
    return watch;
  }

  get pid(): number {
    return this.supervisor.status().pid ?? 0;
  }

  get windows(): number {
    return this.reports.filter(({ kind }) => kind === "window").length;
  }

  count(isWanted: (group: RequestGroup) => boolean): number {
    const groups = this.reports.flatMap((report) => (report.kind === "window" ? report.requests : []));
    return groups.filter(isWanted).reduce((sum, { count }) => sum + count, 0);
  }

  lost(loss: LossKind): number {
    const losses = this.reports.flatMap((report) => (report.kind === "window" ? report.losses : []));
    return losses.filter((one) => one.loss === loss).reduce((sum, { count }) => sum + count, 0);
  }

  rssBytes(): number {
    return Number(/^VmRSS:\s+(\d+) kB$/m.exec(readFileSync(`/proc/${this.pid}/status`, "utf8"))?.[1]) * 1024;
  }

  /** Waits for this many complete windows from now on. */
  async waitForWindows(count: number): Promise<void> {
    const before = this.windows;
    await waitFor(`${count} windows`, () => this.windows >= before + count);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.supervisor[Symbol.asyncDispose]();
  }
}

/** Ids of the BPF programs that a process holds. */
export function programsOf(pid: number): number[] {
  const texts = readdirSync(`/proc/${pid}/fdinfo`).map((fd) => descriptorText(pid, fd));
  return [...new Set(texts.flatMap((text) => /^prog_id:\s*(\d+)$/m.exec(text)?.[1] ?? []).map(Number))];
}

function descriptorText(pid: number, fd: string): string {
  try {
    return readFileSync(`/proc/${pid}/fdinfo/${fd}`, "latin1");
  } catch {
    // The descriptor was closed in the meantime.
    return "";
  }
}

export function isLoaded(program: number): boolean {
  const { error, status } = spawnSync("bpftool", ["prog", "show", "id", String(program)]);
  if (error) throw error;
  return status === 0;
}
