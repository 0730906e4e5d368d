/** `--daemon`: detached from the terminal, one instance per home, with a bounded log. */

import { spawn } from "node:child_process";
import { existsSync, mkdirSync, readFileSync, readlinkSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterEach, describe, expect, it } from "vitest";
import { agentPaths, colonyPaths, listLocalColonies } from "../../src/config/index.ts";
import { DaemonProcess } from "../support/daemon.ts";
import { coralFile, coralJson, runCoral } from "../support/run-coral.ts";
import { runProgram } from "../support/run-program.ts";
import { cleanEnvironment, makeTestHome, type TestHome } from "../support/test-home.ts";
import { waitFor } from "../support/wait-for.ts";

let homes: TestHome[] = [];

/** A home whose daemons are stopped after the test, even if it failed. */
function newHome(): string {
  const home = makeTestHome();
  homes.push(home);
  return home.path;
}

afterEach(async () => {
  for (const home of homes) {
    await runCoral(["agent", "stop"], { home: home.path });
    for (const colonyId of await listLocalColonies(home.path))
      await runCoral(["colony", "stop", "--colony", colonyId], { home: home.path });
    await home[Symbol.asyncDispose]();
  }
  homes = [];
});

function pidOf(output: string): number {
  return Number(/started, pid (\d+)/.exec(output)?.[1]);
}

function isRunning(pid: number): boolean {
  return existsSync(`/proc/${pid}`) && !/^State:\s+Z/m.test(readFileSync(`/proc/${pid}/status`, "utf8"));
}

describe("--daemon", () => {
  it("starts both daemons, outlives its parent and prints all paths; stop returns when the process has exited", async () => {
    const home = newHome();
    await runCoral(["init", "shop"], { home });
    const colony = await runCoral(["colony", "start", "--daemon", "--port", "0"], { home });
    expect(colony.code).toBe(0);
    const [colonyId = ""] = await listLocalColonies(home);
    const paths = colonyPaths(home, colonyId);
    expect(colony.stderr).toMatch(/^ +colony +https:\/\/127\.0\.0\.1:\d+$/m);
    expect(colony.stderr).toContain(paths.socketFile);
    expect(colony.stderr).toContain(paths.logFile);
    const agent = await runCoral(["agent", "start", "--daemon", "--port", "0"], { home });
    expect(agent.code).toBe(0);
    for (const [pid, name] of [
      [pidOf(colony.stdout), "colony"],
      [pidOf(agent.stdout), "agent"],
    ] as const) {
      expect(isRunning(pid), name).toBe(true);
      // A new session without a terminal, and not in the caller's working directory.
      const [, session, terminal] = /\) \S \d+ \d+ (\d+) (-?\d+) /.exec(readFileSync(`/proc/${pid}/stat`, "utf8")) ?? [];
      expect(Number(session)).toBe(pid);
      expect(Number(terminal)).toBe(0);
      expect(readlinkSync(`/proc/${pid}/cwd`)).toBe("/");
    }
    await waitFor("the agent to connect", async () => {
      const { colony: link } = await coralJson<{ colony: { state: string } }>(["agent", "status"], { home });
      return link.state === "connected";
    });

    const stopped = await runCoral(["agent", "stop"], { home });
    expect(isRunning(pidOf(agent.stdout))).toBe(false);
    expect(stopped).toMatchObject({ code: 0, stderr: "" });
    expect(stopped.stdout).toMatch(new RegExp(`^agent stopped, pid ${pidOf(agent.stdout)} exited after \\d+`));
    expect((await runCoral(["colony", "stop"], { home })).code).toBe(0);
    expect(isRunning(pidOf(colony.stdout))).toBe(false);
    expect(await runCoral(["colony", "stop"], { home })).toEqual({ code: 0, stdout: "", stderr: "colony was not running\n" });

    const lines = readFileSync(paths.logFile, "utf8").trimEnd().split("\n");
    const messages = lines.map((line) => (JSON.parse(line) as { message: string }).message);
    expect(messages).toContain(`Colony ${colonyId} is ready`);
    expect(messages.at(-1)).not.toContain("error");
    expect(messages).toContain("Stopping on SIGTERM");
  });

  it("keeps running when its terminal is closed", async (context) => {
    context.skip(!existsSync("/usr/bin/script"), "needs script(1) for a terminal");
    const home = newHome();
    const command = `'${process.execPath}' '${coralFile}' agent start --daemon --port 0; read wait`;
    const child = spawn("script", ["-qec", command, "/dev/null"], {
      env: cleanEnvironment(home, { SHELL: "/bin/sh" }),
      stdio: ["pipe", "pipe", "pipe"],
    });
    await using terminal = new DaemonProcess("terminal", child);
    await terminal.waitForOutput(/agent started, pid \d+/);
    const pid = pidOf(terminal.output);
    await terminal.kill("SIGKILL");
    const status = await coralJson<{ pid: number }>(["agent", "status"], { home });
    expect(status.pid).toBe(pid);
    expect(readFileSync(agentPaths(home).logFile, "utf8")).not.toContain("Stopping");
  });

  it("fails with the daemon's error message and exit code", async () => {
    const home = newHome();
    await runCoral(["init", "shop"], { home });
    const [colonyId = ""] = await listLocalColonies(home);
    writeFileSync(colonyPaths(home, colonyId).configFile, `id: ${colonyId}\nlog:\n  level: loud\n`);
    const broken = await runCoral(["colony", "start", "--daemon"], { home });
    expect(broken.code).toBe(64);
    expect(broken.stderr).toMatch(
      /^error: Cannot read colony config ".*": line 3, column 10: log\.level is "loud"; allowed values: debug, info, warn, error\n$/,
    );
    const missing = await runCoral(["agent", "start", "--daemon", "--config", "nowhere.yaml"], { home });
    expect(missing.code).toBe(4);
    expect(missing.stderr).toContain('/nowhere.yaml": no such file');
    const token = await runCoral(["agent", "start", "--daemon", "--token", "coral_user_abc"], { home });
    expect(token.code).toBe(64);
    expect(token.stderr).toContain("Cannot read the join token: it is a user token");
    expect(token.stderr).not.toContain("coral_user_abc");
  });

  it("of two concurrent starts, one runs and the other names it", async () => {
    const home = newHome();
    await runCoral(["init", "shop"], { home });
    const both = await Promise.all([1, 2].map(() => runCoral(["colony", "start", "--daemon", "--port", "0"], { home })));
    const [winner, loser] = both[0]?.code === 0 ? both : both.reverse();
    expect(winner?.code).toBe(0);
    expect(loser?.code).toBe(1);
    expect(loser?.stderr).toContain(`it is already running with pid ${pidOf(winner?.stdout ?? "")}`);
  });

  it("resolves a relative CORAL_HOME and --config against the caller's working directory", async () => {
    const home = newHome();
    mkdirSync(join(home, "work/inner"), { recursive: true });
    writeFileSync(join(home, "work/my.yaml"), "labels:\n  zone: eu-1\n");
    const env = cleanEnvironment("inner");
    const cwd = join(home, "work");
    const started = await runProgram(process.execPath, [coralFile, "agent", "start", "--daemon", "--port", "0", "--config", "my.yaml"], {
      env,
      cwd,
    });
    expect(started.code, started.stderr).toBe(0);
    const inner = join(home, "work/inner");
    try {
      expect(await coralJson(["agent", "status"], { home: inner })).toMatchObject({ pid: pidOf(started.stdout) });
    } finally {
      expect((await runCoral(["agent", "stop"], { home: inner })).code).toBe(0);
    }
  });

  it("rotates its log, and all files are private", async () => {
    const home = newHome();
    const paths = agentPaths(home);
    mkdirSync(paths.logsDirectory, { recursive: true, mode: 0o700 });
    writeFileSync(paths.logFile, `${"x".repeat(99)}\n`.repeat(104_857), { mode: 0o600 });
    const started = await runCoral(["agent", "start", "--daemon", "--port", "0"], { home });
    expect(started.code, started.stderr).toBe(0);
    expect(statSync(`${paths.logFile}.1`).size).toBeGreaterThan(10_000_000);
    expect(readFileSync(paths.logFile, "utf8")).toMatch(/^\{"at":/);
    for (const file of [paths.logFile, `${paths.logFile}.1`, paths.pidFile, paths.socketFile, paths.databaseFile])
      expect(statSync(file).mode & 0o077, file).toBe(0);
  });
});
