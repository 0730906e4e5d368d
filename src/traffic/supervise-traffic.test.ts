import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, describe, expect, it, vi } from "vitest";
import { createBackoff } from "../base/backoff.ts";
import { silentLogger } from "../base/log.ts";
import { exitCodeOff } from "../base/supervised-process.ts";
import type { TrafficReport, TrafficSettings, TrafficState } from "./core/messages.ts";
import { type SuperviseTrafficOptions, superviseTraffic, type TrafficSupervisor } from "./supervise-traffic.ts";

const directory = mkdtempSync(join(tmpdir(), "coral-supervise-"));
afterAll(() => rmSync(directory, { recursive: true }));

const settings: TrafficSettings = {
  windowMs: 10_000,
  maxRequestKinds: 16,
  maxConnections: 16,
  maxRoutesPerService: 16,
  ringBytes: 65_536,
  tls: { isEnabled: false, excludedExecutables: [] },
  cpuBudget: 0.01,
};

/** A child with the real protocol. Its body must define `onOrder(order)` and may call `state(hooks)`. Like the real one, it exits with the channel. */
function fakeChild(name: string, body: string): string {
  const path = join(directory, `${name}.mjs`);
  writeFileSync(
    path,
    `const state = (hooks, problem = null, step = 0) => process.send({ kind: "state", hooks, problem, tls: [], step });
     process.on("disconnect", () => process.exit(0));
     process.on("message", (order) => onOrder(order));
     ${body}`,
  );
  return path;
}

function start(
  childPath: string,
  more: Partial<SuperviseTrafficOptions> = {},
): { supervisor: TrafficSupervisor; reports: TrafficReport[] } {
  const reports: TrafficReport[] = [];
  const supervisor = superviseTraffic({
    settings,
    ownPids: [1, 2],
    onReport: (report) => reports.push(report),
    log: silentLogger,
    childPath,
    backoff: createBackoff({ initialMs: 20, maxMs: 40 }),
    ...more,
  });
  return { supervisor, reports };
}

const isGone = (pid: number): boolean => {
  try {
    process.kill(pid, 0);
    return false;
  } catch {
    return true;
  }
};
const problemOf = ({ state }: { state: TrafficState | null }): string | null | undefined => state?.problem;
const within = { timeout: 10_000, interval: 20 };

describe("superviseTraffic()", () => {
  it("sends the settings, forwards reports unchanged, and ends the process on disposal", async () => {
    const body =
      'const onOrder = (order) => { if (order.kind === "settings") state("sockets", JSON.stringify([order.settings.ringBytes, order.ownPids])); };';
    const { supervisor, reports } = start(fakeChild("good", body));
    await vi.waitFor(() => expect(problemOf(supervisor.status())).toBe("[65536,[1,2]]"), within);
    const { pid } = supervisor.status();
    supervisor.changeSettings({ ...settings, ringBytes: 4096 });
    await vi.waitFor(() => expect(problemOf(supervisor.status())).toBe("[4096,[1,2]]"), within);
    await Promise.all([supervisor[Symbol.asyncDispose](), supervisor[Symbol.asyncDispose]()]);
    expect(isGone(pid ?? 0)).toBe(true);
    expect(reports.every(({ kind }) => kind === "state")).toBe(true);
    expect(supervisor.status()).toMatchObject({ pid: null, restarts: 0 });
    expect(supervisor.capture({} as never)).toBe(false);
  });

  it("restarts a killed process, and reports the unobserved seconds", async () => {
    const ends: string[] = [];
    const path = fakeChild("killed", 'const onOrder = () => state("sockets");');
    const { supervisor, reports } = start(path, { onUnexpectedEnd: (reason) => ends.push(reason) });
    await using _closing = supervisor;
    await vi.waitFor(() => expect(supervisor.status().state).not.toBeNull(), within);
    const first = supervisor.status().pid ?? 0;
    process.kill(first, "SIGKILL");
    // Nothing is observed until the next process reports its hooks.
    await vi.waitFor(() => expect(ends).toEqual(["SIGKILL"]), within);
    expect(supervisor.status().state).toBeNull();
    await vi.waitFor(() => expect(reports.filter(({ kind }) => kind === "state")).toHaveLength(2), within);
    expect(supervisor.status()).toMatchObject({ restarts: 1, lastEnd: "SIGKILL" });
    expect(supervisor.status().pid).not.toBe(first);
    const losses = reports.flatMap((report) => (report.kind === "window" ? report.losses : []));
    expect(losses).toEqual([{ loss: "away-seconds", count: expect.any(Number) }]);
    expect(losses[0]?.count).toBeGreaterThanOrEqual(1);
  });

  it("does not restart an unsupported process until the settings change", async () => {
    const body = `const onOrder = (order) => { if (order.settings.ringBytes === 4096) { state("sockets"); return; }
      process.send({ kind: "state", hooks: "off", problem: "no", tls: [], step: 0 }, () => process.exit(${exitCodeOff})); };`;
    const { supervisor, reports } = start(fakeChild("off", body));
    await using _closing = supervisor;
    await vi.waitFor(() => expect(supervisor.status()).toMatchObject({ pid: null, state: { hooks: "off", problem: "no" } }), within);
    expect(supervisor.status().restarts).toBe(0);
    supervisor.changeSettings({ ...settings, ringBytes: 4096 });
    await vi.waitFor(() => expect(supervisor.status().state?.hooks).toBe("sockets"), within);
    expect(reports.map(({ kind }) => kind)).toEqual(["state", "state"]);
  });
});
