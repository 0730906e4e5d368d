/** Starting and stopping daemons in the background. The child is `bin/coral … start`, detached, with its own log file. */

import { spawn } from "node:child_process";
import { openSync, readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { sleep } from "../base/clock.ts";
import { CoralError } from "../base/errors.ts";
import type { DaemonStarted, DaemonStopped } from "../cli/index.ts";
import { processStateOf } from "../host/index.ts";
import { requestJson } from "../mesh/index.ts";
import { runningHolder } from "./pid-file.ts";

/** Set in the child, so that it logs to its file. */
export const backgroundVariable = "CORAL_BACKGROUND";

export interface BackgroundTarget {
  kind: "colony" | "agent";
  pidFile: string;
  logFile: string;
  socketFile: string;
  /** Arguments after `coral`. */
  args: string[];
  /** A join token travels in the environment: command lines are readable by everybody. */
  env: Record<string, string>;
}

const startTimeoutMs = 30_000;

/** Resolves when the daemon answers on its socket. */
export async function startInBackground(target: BackgroundTarget): Promise<DaemonStarted> {
  const running = runningHolder(target.pidFile);
  if (running) {
    throw new CoralError({
      code: "already-exists",
      message: `Cannot start the ${target.kind}: it is running already with pid ${running.pid} since ${running.startedAt}; stop it with \`coral ${target.kind} stop\` first`,
      details: { ...running },
    });
  }
  // Whatever is written before the log is set up (a missing module, a usage error) must be seen too.
  const output = openSync(`${target.logFile}.start`, "w", 0o600);
  const entry = fileURLToPath(new URL("../bin/coral", import.meta.url));
  const child = spawn(process.execPath, [entry, ...target.args], {
    detached: true,
    stdio: ["ignore", output, output],
    env: { ...process.env, ...target.env, [backgroundVariable]: "1" },
  });
  const pid = child.pid;
  if (pid === undefined) throw new CoralError({ code: "internal", message: `Cannot start the ${target.kind}: no process could be made` });
  let exited: string | undefined;
  child.once("exit", (code, signal) => {
    exited = signal ?? `code ${code}`;
  });
  const deadlineMs = performance.now() + startTimeoutMs;
  while (performance.now() < deadlineMs) {
    if (exited !== undefined) {
      const said = readFileSync(`${target.logFile}.start`, "utf8").trim();
      throw new CoralError({
        code: "unavailable",
        message:
          said === ""
            ? `Cannot start the ${target.kind}: it ended at once (${exited}); see ${target.logFile}`
            : said.replace(/^error: /i, ""),
      });
    }
    const holder = runningHolder(target.pidFile);
    if (holder?.pid === pid && (await isReady(target.socketFile))) {
      child.unref();
      return { kind: target.kind, pid, logFile: target.logFile, endpoints: holder.endpoints };
    }
    await sleep(25);
  }
  child.kill("SIGTERM");
  throw new CoralError({
    code: "timeout",
    message: `Cannot start the ${target.kind}: it did not answer within ${startTimeoutMs / 1000} s; see ${target.logFile}`,
  });
}

async function isReady(socketFile: string): Promise<boolean> {
  try {
    await requestJson({ target: { kind: "unix", path: socketFile }, method: "GET", path: "/readyz", timeoutMs: 1_000 });
    return true;
  } catch {
    // Not listening yet, or starting: the caller asks again until its deadline.
    return false;
  }
}

/** SIGTERM, then waits until the process is gone; throws `timeout` when it does not go. */
export async function stopInBackground(kind: "colony" | "agent", pidFile: string, timeoutMs: number): Promise<DaemonStopped> {
  const running = runningHolder(pidFile);
  if (!running) return { kind: "not-running" };
  const startMs = performance.now();
  try {
    process.kill(running.pid, "SIGTERM");
  } catch (error) {
    const code = (error as NodeJS.ErrnoException).code;
    if (code === "ESRCH") return { kind: "not-running" };
    throw new CoralError({
      code: "not-permitted",
      message: `Cannot stop the ${kind}: process ${running.pid} belongs to another user; use sudo`,
      cause: error,
    });
  }
  while (runningHolder(pidFile)?.pid === running.pid || isAlive(running.pid)) {
    if (performance.now() - startMs > timeoutMs) {
      throw new CoralError({
        code: "timeout",
        message: `Cannot stop the ${kind}: process ${running.pid} is still there after ${timeoutMs / 1000} s; look at it, or end it with kill -9`,
      });
    }
    await sleep(20);
  }
  return { kind: "stopped", pid: running.pid, tookMs: Math.round(performance.now() - startMs) };
}

function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0);
  } catch (error) {
    // EPERM means that it lives and is not ours.
    return (error as NodeJS.ErrnoException).code === "EPERM";
  }
  // In a container whose first process does not reap, an ended daemon stays as a zombie for ever: that is gone, too.
  return processStateOf(pid) !== "Z";
}
