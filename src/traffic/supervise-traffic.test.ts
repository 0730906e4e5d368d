import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, describe, expect, it, vi } from "vitest";
import { createLogger, silentLogger } from "../base/log.ts";
import { createBackoff } from "../base/retry.ts";
import type { TrafficReport, TrafficSettings, TrafficState } from "./core/messages.ts";
import { exitCodeOff, type SuperviseTrafficOptions, superviseTraffic, type TrafficSupervisor } from "./supervise-traffic.ts";

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

/** A child that speaks the real protocol. `state(hooks)` and `orders` are at hand; it ends with the channel, as the real one does. */
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
  it("gives the settings, takes reports as they were, and ends the process when it is closed", async () => {
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

  it("starts it again after it was killed, and tells the seconds without it", async () => {
    const ends: string[] = [];
    const path = fakeChild("killed", 'const onOrder = () => state("sockets");');
    const { supervisor, reports } = start(path, { onUnexpectedEnd: (reason) => ends.push(reason) });
    await using _closing = supervisor;
    await vi.waitFor(() => expect(supervisor.status().state).not.toBeNull(), within);
    const first = supervisor.status().pid ?? 0;
    process.kill(first, "SIGKILL");
    // Nobody watches until the next one says so.
    await vi.waitFor(() => expect(ends).toEqual(["SIGKILL"]), within);
    expect(supervisor.status().state).toBeNull();
    await vi.waitFor(() => expect(reports.filter(({ kind }) => kind === "state")).toHaveLength(2), within);
    expect(supervisor.status()).toMatchObject({ restarts: 1, lastEnd: "SIGKILL" });
    expect(supervisor.status().pid).not.toBe(first);
    const losses = reports.flatMap((report) => (report.kind === "window" ? report.losses : []));
    expect(losses).toEqual([{ loss: "away-seconds", count: expect.any(Number) }]);
    expect(losses[0]?.count).toBeGreaterThanOrEqual(1);
  });

  it("tells the last line that a failing process wrote, and goes on trying", async () => {
    const ends: string[] = [];
    const path = fakeChild(
      "failing",
      'console.error(JSON.stringify({ at: "x", level: "error", scope: "traffic", message: "out of \\"luck\\"", code: 1 })); const onOrder = () => process.exit(7);',
    );
    const lines: string[] = [];
    const log = createLogger("agent", "warn", ({ level, message }) => lines.push(`${level} ${message}`));
    const { supervisor } = start(path, { log, onUnexpectedEnd: (reason) => ends.push(reason) });
    await using _closing = supervisor;
    await vi.waitFor(() => expect(ends.length).toBeGreaterThanOrEqual(2), within);
    expect(ends[0]).toBe('exit code 7: out of "luck"');
    expect(lines.slice(0, 2)).toEqual([
      'error the traffic process says: out of "luck"',
      'warn the traffic process ended: exit code 7: out of "luck"',
    ]);
  });

  it("does not start again what cannot work here, until the settings change", async () => {
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

  it("kills a process that does not end when asked", async () => {
    const body = 'process.removeAllListeners("disconnect"); setInterval(() => {}, 1000); const onOrder = () => state("sockets");';
    const { supervisor } = start(fakeChild("deaf", body));
    await vi.waitFor(() => expect(supervisor.status().state).not.toBeNull(), within);
    const pid = supervisor.status().pid ?? 0;
    await supervisor[Symbol.asyncDispose]();
    expect(isGone(pid)).toBe(true);
  });

  it("ends a process that hangs, and starts another one", async () => {
    const ends: string[] = [];
    const path = fakeChild("hung", 'const onOrder = () => { state("sockets"); setTimeout(() => { for (;;); }, 50); };');
    const { supervisor } = start(path, {
      settings: { ...settings, windowMs: 20 },
      checkMs: 50,
      onUnexpectedEnd: (reason) => ends.push(reason),
    });
    await using _closing = supervisor;
    await vi.waitFor(() => expect(ends.length).toBeGreaterThanOrEqual(1), within);
    expect(ends[0]).toMatch(/^it hung: no report for \d+ s$/);
    await vi.waitFor(() => expect(supervisor.status().pid).not.toBeNull(), within);
  });

  it("ends with the signal of its owner", async () => {
    const owner = new AbortController();
    const { supervisor } = start(fakeChild("owner", 'const onOrder = () => state("sockets");'), { signal: owner.signal });
    await vi.waitFor(() => expect(supervisor.status().state).not.toBeNull(), within);
    const pid = supervisor.status().pid ?? 0;
    owner.abort();
    await supervisor[Symbol.asyncDispose]();
    expect(isGone(pid)).toBe(true);
  });
});
