/** The lifecycle of daemons in a terminal: init, up, start, status, stop, signals, and restarts after a kill. */

import { spawn } from "node:child_process";
import { existsSync, readFileSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { agentPaths, colonyPaths, listLocalColonies } from "../../src/config/index.ts";
import { DaemonProcess, spawnNode, startAgent, startColony } from "../support/daemon.ts";
import { freePort, HeldPort } from "../support/held-port.ts";
import { coralFile, coralJson, runCoral } from "../support/run-coral.ts";
import { runProgram } from "../support/run-program.ts";
import { cleanEnvironment, makeTestHome } from "../support/test-home.ts";
import { waitFor } from "../support/wait-for.ts";

function startUp(home: string, args: readonly string[] = ["--port", "0"], env: Record<string, string> = {}): DaemonProcess {
  return spawnNode("coral up", [coralFile, "up", ...args], home, env);
}

describe("coral init", () => {
  it("creates a private colony, its CA and the current context, and prints the next steps", async () => {
    await using home = makeTestHome();
    const made = await runCoral(["init", "shop", "--env", "prod"], { home: home.path });
    expect(made.code).toBe(0);
    const colonyId = made.stdout.trim();
    expect(colonyId).toMatch(/^shop-prod-[0-9a-f]{6}$/);
    expect(made.stderr).toMatch(/CA SHA-256 +[0-9a-f]{64}\n/);
    expect(made.stderr).toContain("coral colony start --daemon");
    const paths = colonyPaths(home.path, colonyId);
    expect(statSync(paths.directory).mode & 0o777).toBe(0o700);
    for (const file of [join(paths.caDirectory, "ca.key"), paths.configFile, join(home.path, "config.yaml")])
      expect(statSync(file).mode & 0o777, file).toBe(0o600);
    expect(await coralJson(["config", "get-contexts"], { home: home.path })).toMatchObject({
      currentContext: "shop-prod",
      contexts: [{ name: "shop-prod", colonyId, current: true }],
    });

    const again = await runCoral(["init", "shop", "--env", "prod"], { home: home.path });
    expect(again).toMatchObject({ code: 1, stdout: "" });
    expect(again.stderr).toContain(`it already exists with id ${colonyId}`);
    for (const name of ["Shop", "shop_api", "-x", "a".repeat(31)]) {
      const wrong = await runCoral(["init", "--", name], { home: home.path });
      expect(wrong.code, name).toBe(64);
      expect(wrong.stderr).toContain("write 1 to 30 lower-case letters, digits and dashes");
    }
    expect(await listLocalColonies(home.path)).toEqual([colonyId]);
  });
});

describe("coral up", () => {
  it("exits with 0 when stopped during start-up, and can start again", async () => {
    await using home = makeTestHome();
    await using first = startUp(home.path);
    await waitFor("its pid file", () => existsSync(agentPaths(home.path).pidFile));
    expect(await first.kill("SIGINT")).toEqual({ code: 0, signal: null });
    await using second = startUp(home.path);
    await second.waitForOutput(/Press Ctrl-C to stop\.\n/);
    expect(await second.kill("SIGINT")).toEqual({ code: 0, signal: null });
  });

  it("prints its addresses, the observed resources and three working commands; SIGINT ends it with 0 and keeps the stored data", async () => {
    await using home = makeTestHome();
    await using up = startUp(home.path);
    await up.waitForOutput(/Press Ctrl-C to stop\.\n/);
    const { output } = up;
    expect(output).toMatch(/^Coral is running: a colony and an agent on this machine\n/);
    const colony = /^ +colony +https:\/\/(127\.0\.0\.1:\d+)$/m.exec(output)?.[1];
    expect(output).toContain(`http://${colony}/mcp`);
    expect(output).toContain(`http://${colony}/metrics`);
    expect(output).toMatch(/^ +agent +http:\/\/127\.0\.0\.1:\d+$/m);
    expect(output).toMatch(/agents +1 healthy/);
    expect(output).toMatch(/^ +HOST +HEALTH +CPU +CORES +MEM/m);
    expect(output).not.toContain(" 0 B of ");

    const commands = [...output.matchAll(/^ {2}(CORAL_HOME=.*?) {2,}\S/gm)].map((match) => match[1] ?? "");
    expect(commands).toHaveLength(3);
    const { CORAL_HOME: _, ...env } = cleanEnvironment(home.path);
    for (const command of commands) {
      const { code, stdout, stderr } = await runProgram("/bin/sh", ["-c", command], { env });
      expect(code, `${command}: ${stderr}`).toBe(0);
      expect(stdout.length).toBeGreaterThan(50);
    }
    const before = await coralJson<{ rows: [[string]] }>(["query", "sql", "SELECT count(*) FROM host"], { home: home.path });
    expect(Number(before.rows[0][0])).toBeGreaterThan(0);

    expect(await up.kill("SIGINT")).toEqual({ code: 0, signal: null });
    expect(up.output).toContain("coral stopped; stored data is kept");
    const [colonyId = ""] = await listLocalColonies(home.path);
    // A clean shutdown leaves all data in the database file, and no pid file.
    for (const { databaseFile, socketFile, pidFile } of [colonyPaths(home.path, colonyId), agentPaths(home.path)]) {
      expect(existsSync(`${databaseFile}.wal`)).toBe(false);
      expect(existsSync(socketFile)).toBe(false);
      expect(readFileSync(pidFile, "utf8").trim()).toBe("");
    }
    await using again = await startColony({ home: home.path });
    const after = await again.sql("SELECT count(*) AS n FROM host");
    expect(Number(after[0]?.["n"])).toBeGreaterThanOrEqual(Number(before.rows[0][0]));
  });

  it("uses and prints the next free port if the default is in use, but not if the port was given explicitly", async () => {
    await using home = makeTestHome();
    await using taken = await HeldPort.take();
    await using agentTaken = await HeldPort.take();
    const env = { CORAL_COLONY_LISTEN: `127.0.0.1:${taken.port}`, CORAL_AGENT_LISTEN: `127.0.0.1:${agentTaken.port}` };
    {
      await using up = startUp(home.path, [], env);
      await up.waitForOutput(/Press Ctrl-C to stop\.\n/);
      const port = Number(/colony +https:\/\/127\.0\.0\.1:(\d+)/.exec(up.output)?.[1]);
      expect(port).toBeGreaterThan(taken.port);
      expect(port).toBeLessThanOrEqual(taken.port + 50);
      const health = await fetch(`http://127.0.0.1:${port}/healthz`);
      expect(health.status).toBe(200);
      expect((await runCoral(["status"], { home: home.path })).stdout).toContain(`https://127.0.0.1:${port}`);
      expect(await up.kill("SIGTERM")).toEqual({ code: 0, signal: null });
    }
    const asked = await runCoral(["up", "--port", String(taken.port)], { home: home.path });
    expect(asked.code).toBe(1);
    expect(asked.stderr).toContain(`port ${taken.port} in use by another program; choose another with --port, or 0 for any`);
  });

  it("ends when its terminal is closed", async (context) => {
    context.skip(!existsSync("/usr/bin/script"), "needs script(1) for a terminal");
    await using home = makeTestHome();
    // script(1) creates a terminal and holds its other end: killing it is like closing the window.
    const command = `exec '${process.execPath}' '${coralFile}' up --port 0`;
    const child = spawn("script", ["-qec", command, "/dev/null"], {
      env: cleanEnvironment(home.path, { SHELL: "/bin/sh" }),
      stdio: ["pipe", "pipe", "pipe"],
    });
    await using terminal = new DaemonProcess("terminal", child);
    await terminal.waitForOutput(/Coral is running/);
    const { pid } = await coralJson<{ pid: number }>(["agent", "status"], { home: home.path });
    await terminal.kill("SIGKILL");
    await waitFor("coral up to end", () => !existsSync(`/proc/${pid}`));
    expect(readFileSync(agentPaths(home.path).pidFile, "utf8").trim()).toBe("");
    expect(existsSync(agentPaths(home.path).socketFile)).toBe(false);
  });

  it("keeps running when its output pipe is closed", async () => {
    await using home = makeTestHome();
    const child = spawn(process.execPath, [coralFile, "up", "--port", "0", "--log-level", "debug"], {
      env: cleanEnvironment(home.path),
      stdio: ["ignore", "pipe", "pipe"],
    });
    await using up = new DaemonProcess("coral up", child);
    await up.waitForOutput(/Coral is running/);
    child.stdout.destroy();
    child.stderr.destroy();
    await waitFor("a sample", async () => {
      const { hosts } = await coralJson<{ hosts: { sampledAt: string | null }[] }>(["status"], { home: home.path });
      return hosts[0]?.sampledAt;
    });
    expect(up.hasEnded).toBe(false);
    expect(await up.kill("SIGTERM")).toEqual({ code: 0, signal: null });
  });
});

describe("colony and agent in the foreground", () => {
  it("start, respond, are listed, and exit with 0 on SIGTERM and SIGINT", async () => {
    await using home = makeTestHome();
    await using colony = await startColony({ home: home.path });
    await using agent = await startAgent({ home: home.path });
    await agent.waitUntilConnected();

    const colonyStatus = await runCoral(["colony", "status"], { home: home.path });
    expect(colonyStatus.stdout).toMatch(new RegExp(`^Colony: ${colony.colonyId}\\n`));
    expect(colonyStatus.stdout).toMatch(new RegExp(`^Version: .*, pid ${colony.pid}\\n`, "m"));
    expect(await coralJson(["colony", "status"], { home: home.path })).toMatchObject({
      colony: { colonyId: colony.colonyId, pid: colony.pid },
      agents: { total: 1, healthy: 1 },
    });
    const agentStatus = await runCoral(["agent", "status"], { home: home.path });
    expect(agentStatus.stdout).toContain(`pid ${agent.pid}`);
    expect(agentStatus.stdout).toMatch(
      new RegExp(`Connected: +✅ Yes .*\\n +Colony: +${colony.colonyId}\\n +URL: +${colony.endpoint.replaceAll(".", "\\.")}\\n`),
    );
    const list = await runCoral(["agent", "list"], { home: home.path });
    expect(list.stdout).toMatch(new RegExp(`${agent.agentId} +healthy +Native +- +yes`));
    const verbose = await runCoral(["agent", "list", "--verbose"], { home: home.path });
    expect(verbose.stdout).toMatch(/^│ Certificate: +ends in 23h/m);
    // Commands that the read-only profile always denies are not a capability.
    expect(verbose.stdout).toMatch(/^│ +✅ connect {2}✅ exec {2}❌ shell {2}❌ run +│$/m);

    expect(await agent.kill("SIGINT")).toEqual({ code: 0, signal: null });
    expect(await colony.kill("SIGTERM")).toEqual({ code: 0, signal: null });
    const gone = await runCoral(["agent", "status"], { home: home.path });
    expect(gone.code).toBe(1);
    expect(gone.stderr).toContain("none is running for CORAL_HOME");
  });

  it("a colony with connected agents stops at once, and its agents reconnect after its restart", async () => {
    await using home = makeTestHome();
    const first = await startColony({ home: home.path });
    await using agent = await startAgent({ home: home.path });
    await agent.waitUntilConnected();
    const startMs = performance.now();
    expect(await first.kill("SIGTERM")).toEqual({ code: 0, signal: null });
    expect(performance.now() - startMs).toBeLessThan(10_000);
    await waitFor("the agent to notice", () => agent.logLines().some((line) => String(line["message"]).includes("the colony is stopping")));
    // On another port: an agent of the same home looks up the colony's current address.
    await using second = await startColony({ home: home.path });
    expect(second.endpoint).not.toBe("");
    await agent.waitUntilConnected();
    await waitFor("one healthy agent", async () => {
      const { agents } = await second.tool<{ agents: { healthy: number } }>("coral_get_status");
      return agents.healthy === 1;
    });
  });

  it("a second start of any kind reports the pid of the first", async () => {
    await using home = makeTestHome();
    await using colony = await startColony({ home: home.path });
    await using agent = await startAgent({ home: home.path });
    for (const [args, pid] of [
      [["colony", "start"], colony.pid],
      [["colony", "start", "--daemon"], colony.pid],
      [["up"], colony.pid],
      [["agent", "start"], agent.pid],
      [["agent", "start", "--daemon"], agent.pid],
    ] as const) {
      const { code, stderr } = await runCoral(args, { home: home.path });
      expect(code, args.join(" ")).toBe(1);
      expect(stderr).toMatch(
        new RegExp(`Cannot start the (colony|agent): it is already running with pid ${pid} since \\d{4}-.*stop it first with`),
      );
    }
  });

  it("start again after kill -9 despite stale files", async () => {
    await using home = makeTestHome();
    const colony = await startColony({ home: home.path });
    const agent = await startAgent({ home: home.path });
    await agent.waitUntilConnected();
    const { agentId } = agent;
    const { port, pid } = colony;
    await Promise.all([colony.kill("SIGKILL"), agent.kill("SIGKILL")]);
    expect(existsSync(colony.paths.socketFile)).toBe(true);
    expect(readFileSync(agent.paths.pidFile, "utf8")).toContain(`"pid":${agent.pid}`);

    const refused = await runCoral(["status"], { home: home.path });
    expect(refused.code).toBe(1);
    expect(refused.stderr).toContain("it is not running; start it with");
    expect((await runCoral(["colony", "stop"], { home: home.path })).stderr).toContain("colony was not running");

    await using colonyAgain = await startColony({ home: home.path, port });
    await using agentAgain = await startAgent({ home: home.path });
    await agentAgain.waitUntilConnected();
    expect(colonyAgain.pid).not.toBe(pid);
    expect(agentAgain.agentId).toBe(agentId);
    expect(await coralJson(["agent", "list"], { home: home.path })).toMatchObject({ agents: [{ agentId }], total: 1 });
  });

  it("--config and --port take effect, and the port in the config is not changed", async () => {
    await using home = makeTestHome();
    await runCoral(["init", "test"], { home: home.path });
    const [colonyId = ""] = await listLocalColonies(home.path);
    const config = join(home.path, "other.yaml");
    const port = await freePort();
    writeFileSync(config, `id: ${colonyId}\nname: From another file\nlisten: 127.0.0.1:1\n`);
    await using colony = await startColony({ home: home.path, port, args: ["--config", config] });
    expect(colony.port).toBe(port);
    expect(await colony.tool("coral_get_status")).toMatchObject({ colony: { name: "From another file" } });
  });
});
