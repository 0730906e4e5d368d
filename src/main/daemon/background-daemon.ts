/** Starts and stops daemons in the background. The child is `bin/coral … start`, detached, with its own log file. */

import { type ChildProcess, spawn } from "node:child_process";
import { closeSync, constants, readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { sleep } from "../../base/clock.ts";
import { CoralError, type ErrorCode } from "../../base/errors.ts";
import { openOwned } from "../../base/open-owned.ts";
import type { DaemonStarted, DaemonStopped } from "../../cli/index.ts";
import { sudoOwner } from "../../config/index.ts";
import { processStateOf } from "../../host/index.ts";
import { requestJson } from "../../transport/index.ts";
import { alreadyRunning, runningHolder } from "./pid-file.ts";

/** Set in the child's environment; makes it log to its file. */
export const backgroundVariable = "CORAL_BACKGROUND";

export interface BackgroundTarget {
  kind: "colony" | "agent";
  pidFile: string;
  logFile: string;
  socketFile: string;
  /** Arguments after `coral`. */
  args: string[];
  /** Also carries the join token, because command lines are readable by every user. */
  env: Record<string, string>;
}

const startTimeoutMs = 30_000;

/** Resolves when the daemon responds on its socket. */
export async function startInBackground(target: BackgroundTarget): Promise<DaemonStarted> {
  const running = runningHolder(target.pidFile);
  if (running) throw alreadyRunning(target.kind, running);
  const child = spawnDaemon(target);
  const pid = child.pid;
  if (pid === undefined)
    throw new CoralError({ code: "internal", message: `Cannot start the ${target.kind}: the process could not be created` });
  let exited: { code: number | null; signal: string | null } | undefined;
  child.once("exit", (code, signal) => {
    exited = { code, signal };
  });
  const deadlineMs = performance.now() + startTimeoutMs;
  while (performance.now() < deadlineMs) {
    if (exited !== undefined) throw startFailure(target, exited.code, exited.signal);
    const holder = runningHolder(target.pidFile);
    // The endpoints are written last, when everything is ready.
    if (holder?.pid === pid && Object.keys(holder.endpoints).length > 0 && (await isReady(target.socketFile))) {
      child.unref();
      return { kind: target.kind, pid, logFile: target.logFile, endpoints: holder.endpoints };
    }
    await sleep(25);
  }
  child.kill("SIGTERM");
  throw new CoralError({
    code: "timeout",
    message: `Cannot start the ${target.kind}: it did not respond within ${startTimeoutMs / 1000} s; see ${target.logFile}`,
  });
}

function spawnDaemon(target: BackgroundTarget): ChildProcess {
  // Captures output from before the log is set up, such as a missing module or a usage error.
  const flags = constants.O_WRONLY | constants.O_CREAT | constants.O_TRUNC;
  const output = openOwned(startFileOf(target), flags, 0o600, sudoOwner());
  try {
    const entry = fileURLToPath(new URL("../bin/coral", import.meta.url));
    return spawn(process.execPath, [entry, ...target.args], {
      detached: true,
      // The current directory may be unmounted or removed later.
      cwd: "/",
      stdio: ["ignore", output, output],
      // One malloc arena: by default glibc gives each thread its own, which keeps freed memory. Read only at process start.
      env: { MALLOC_ARENA_MAX: "2", ...process.env, ...target.env, [backgroundVariable]: "1" },
    });
  } finally {
    closeSync(output);
  }
}

function startFileOf(target: BackgroundTarget): string {
  return `${target.logFile}.start`;
}

const codesByExit: Record<number, ErrorCode> = { 2: "unsupported", 3: "not-permitted", 4: "not-found", 64: "usage" };

/** The daemon's own error message and exit code, passed on as this command's. */
function startFailure(target: BackgroundTarget, code: number | null, signal: string | null): CoralError {
  const output = readFileSync(startFileOf(target), "utf8").trim();
  const how = signal === null ? `with code ${code}` : `by ${signal}`;
  return new CoralError({
    code: codesByExit[code ?? 1] ?? "unavailable",
    message: output === "" ? `Cannot start the ${target.kind}: it exited ${how}; see ${target.logFile}` : output.replace(/^error: /i, ""),
  });
}

async function isReady(socketFile: string): Promise<boolean> {
  try {
    await requestJson({ target: { kind: "unix", path: socketFile }, method: "GET", path: "/readyz", timeoutMs: 1_000 });
    return true;
  } catch (error) {
    // Not listening or not ready yet: the caller retries until its deadline. A daemon that only cannot store rows counts as started.
    return String(CoralError.from(error).details["text"] ?? "").includes("cannot store rows");
  }
}

/** Sends SIGTERM and waits until the process exits; throws `timeout` if it does not. */
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
        message: `Cannot stop the ${kind}: process ${running.pid} is still running after ${timeoutMs / 1000} s; check its log, or end it with kill -9`,
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
    // EPERM: the process exists but belongs to another user.
    return (error as NodeJS.ErrnoException).code === "EPERM";
  }
  // In a container whose init does not reap children, an exited daemon stays a zombie: count it as gone.
  return processStateOf(pid) !== "Z";
}
