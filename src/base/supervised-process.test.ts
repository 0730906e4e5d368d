import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, describe, expect, it, vi } from "vitest";
import { createBackoff } from "./backoff.ts";
import { createLogger, silentLogger } from "./log.ts";
import { exitCodeOff, SupervisedProcess, type SupervisedProcessOptions } from "./supervised-process.ts";

const directory = mkdtempSync(join(tmpdir(), "coral-supervised-"));
afterAll(() => rmSync(directory, { recursive: true }));

interface Order {
  text: string;
}

type Report = { kind: "state"; is: string } | { kind: "window" } | { kind: "echo"; text: string };

/** A child whose body must define `onOrder(order)`. Like the real ones, it exits with the channel. */
function fakeChild(name: string, body: string): string {
  const path = join(directory, `${name}.mjs`);
  writeFileSync(
    path,
    `const state = (is, then) => process.send({ kind: "state", is }, then);
     process.on("disconnect", () => process.exit(0));
     process.on("message", (order) => onOrder(order));
     ${body}`,
  );
  return path;
}

function start(childPath: string | undefined, more: Partial<SupervisedProcessOptions<Order, Report>> = {}) {
  const reports: Report[] = [];
  const supervised = new SupervisedProcess<Order, Report>({
    name: "fake process",
    file: "no-such-process.js",
    engineFlags: [],
    poolThreads: 1,
    firstOrder: () => ({ text: "hello" }),
    offState: (problem) => ({ kind: "state", is: problem }),
    onReport: (report) => reports.push(report),
    windowMs: () => 10_000,
    log: silentLogger,
    ...(childPath !== undefined && { childPath }),
    backoff: createBackoff({ initialMs: 20, maxMs: 40 }),
    ...more,
  });
  return { supervised, reports };
}

const isGone = (pid: number): boolean => {
  try {
    process.kill(pid, 0);
    return false;
  } catch {
    return true;
  }
};
const within = { timeout: 20_000, interval: 20 };

describe("SupervisedProcess", () => {
  it("sends the first order, then others, receives reports, and ends the process on disposal", async () => {
    const { supervised, reports } = start(
      fakeChild("good", 'const onOrder = ({ text }) => { state("on"); process.send({ kind: "echo", text }); };'),
    );
    await vi.waitFor(() => expect(reports).toContainEqual({ kind: "echo", text: "hello" }), within);
    expect(supervised.status()).toMatchObject({ state: { is: "on" }, restarts: 0, lastEnd: null });
    expect(supervised.send({ text: "more" })).toBe(true);
    await vi.waitFor(() => expect(reports).toContainEqual({ kind: "echo", text: "more" }), within);
    const { pid } = supervised.status();
    await Promise.all([supervised[Symbol.asyncDispose](), supervised[Symbol.asyncDispose]()]);
    expect(isGone(pid ?? 0)).toBe(true);
    expect(supervised.status().pid).toBeNull();
    expect(supervised.send({ text: "late" })).toBe(false);
  });

  it("reports the last line of a failing process, and keeps restarting it", async () => {
    const ends: string[] = [];
    const downMs: number[] = [];
    const path = fakeChild(
      "failing",
      'console.error(JSON.stringify({ at: "x", level: "error", scope: "fake", message: "out of \\"luck\\"", code: 1 })); const onOrder = () => process.exit(7);',
    );
    const lines: string[] = [];
    const log = createLogger("agent", "warn", ({ level, message }) => lines.push(`${level} ${message}`));
    const { supervised } = start(path, { log, onUnexpectedEnd: (reason) => ends.push(reason), onRestart: (ms) => downMs.push(ms) });
    await using _closing = supervised;
    await vi.waitFor(() => expect(ends.length).toBeGreaterThanOrEqual(2), within);
    expect(ends[0]).toBe('exit code 7: out of "luck"');
    expect(lines.slice(0, 2)).toEqual([
      'error fake process: out of "luck"',
      'warn fake process ended: exit code 7: out of "luck"; restarting it',
    ]);
    expect(downMs[0]).toBeGreaterThan(0);
  });

  it("has no state from an unexpected end until the next process reports one", async () => {
    const states: unknown[] = [];
    const { supervised } = start(fakeChild("killed", 'const onOrder = () => state("on");'), {
      onUnexpectedEnd: () => states.push(supervised.status().state),
    });
    await using _closing = supervised;
    await vi.waitFor(() => expect(supervised.status().state).not.toBeNull(), within);
    const first = supervised.status().pid ?? 0;
    process.kill(first, "SIGKILL");
    await vi.waitFor(() => expect(supervised.status()).toMatchObject({ state: { is: "on" }, restarts: 1, lastEnd: "SIGKILL" }), within);
    expect(states).toEqual([null]);
    expect(supervised.status().pid).not.toBe(first);
  });

  it("does not restart a process that cannot work on this host, until retry()", async () => {
    let text = "hopeless";
    const calls: string[] = [];
    const body = `const onOrder = ({ text }) => text === "hopeless" ? state("off", () => process.exit(${exitCodeOff})) : state("on");`;
    const { supervised } = start(fakeChild("off", body), {
      firstOrder: () => ({ text }),
      onOff: () => calls.push("off"),
      onRetry: () => calls.push("retry"),
    });
    await using _closing = supervised;
    await vi.waitFor(() => expect(calls).toEqual(["off"]), within);
    expect(supervised.status()).toMatchObject({ state: { is: "off" }, pid: null, restarts: 0 });
    text = "hopeful";
    supervised.retry();
    await vi.waitFor(() => expect(supervised.status().state).toEqual({ kind: "state", is: "on" }), within);
    expect(calls).toEqual(["off", "retry"]);
  });

  it("reports the state off if its file was not built", async () => {
    const { supervised, reports } = start(undefined);
    await using _closing = supervised;
    expect(reports).toEqual([{ kind: "state", is: 'the fake process is not built; run "npm run setup"' }]);
  });

  it("kills a process that ignores the closed channel", async () => {
    const body = 'process.removeAllListeners("disconnect"); setInterval(() => {}, 1000); const onOrder = () => state("on");';
    const { supervised } = start(fakeChild("ignores-disconnect", body));
    await vi.waitFor(() => expect(supervised.status().state).not.toBeNull(), within);
    const pid = supervised.status().pid ?? 0;
    await supervised[Symbol.asyncDispose]();
    expect(isGone(pid)).toBe(true);
  });

  it("kills a hung process, whatever else it reports, and starts another one", async () => {
    const ends: string[] = [];
    const path = fakeChild(
      "hung",
      'const onOrder = () => { state("on"); setInterval(() => process.send({ kind: "echo", text: "" }), 20); };',
    );
    const { supervised } = start(path, { windowMs: () => 20, checkMs: 50, onUnexpectedEnd: (reason) => ends.push(reason) });
    await using _closing = supervised;
    await vi.waitFor(() => expect(ends.length).toBeGreaterThanOrEqual(1), within);
    expect(ends[0]).toMatch(/^hung: no report for \d+ s$/);
    await vi.waitFor(() => expect(supervised.status().pid).not.toBeNull(), within);
  });

  it("ends when its owner aborts its signal", async () => {
    const owner = new AbortController();
    const { supervised } = start(fakeChild("owner", 'const onOrder = () => state("on");'), { signal: owner.signal });
    await vi.waitFor(() => expect(supervised.status().state).not.toBeNull(), within);
    const pid = supervised.status().pid ?? 0;
    owner.abort();
    await supervised[Symbol.asyncDispose]();
    expect(isGone(pid)).toBe(true);
  });
});
