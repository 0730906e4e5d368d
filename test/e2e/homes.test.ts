/** CORAL_HOME: unusual paths, other users, sudo, several colonies in one home, and unusable homes. */

import { spawn } from "node:child_process";
import { chmodSync, existsSync, lchownSync, linkSync, lstatSync, mkdirSync, readdirSync, symlinkSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { beforeAll, describe, expect, it } from "vitest";
import { agentPaths, colonyPaths, listLocalColonies } from "../../src/config/index.ts";
import { asUserArgv, isRoot, makeHomeOf, nobody, otherUserSkipReason, runCoralAs } from "../support/as-user.ts";
import { DaemonProcess, startAgent, startColony } from "../support/daemon.ts";
import { coralFile, coralJson, runCoral } from "../support/run-coral.ts";
import { cleanEnvironment, makeTestHome } from "../support/test-home.ts";
import { waitFor } from "../support/wait-for.ts";

function entriesBelow(directory: string): string[] {
  return [directory, ...readdirSync(directory, { recursive: true, encoding: "utf8" }).map((name) => join(directory, name))];
}

/** Files of an agent and a colony that an upgrade keeps, below CORAL_HOME. */
const goldenFiles = [
  "agent/agent-id",
  "agent/agent.yaml",
  "agent/audit-head.json",
  "agent/audit-journal.jsonl",
  "agent/data/agent.duckdb",
  "agent/data/segments/log",
  "agent/data/segments/span",
  "agent/data/wal/log",
  "agent/data/wal/span",
  "agent/identity/ca.pem",
  "agent/identity/cert.pem",
  "agent/identity/endpoint",
  "agent/identity/key.pem",
  "agent/services.json",
  "colonies/<colony>/ca/ca.crt",
  "colonies/<colony>/ca/ca.key",
  "colonies/<colony>/ca/revoked",
  "colonies/<colony>/colony.yaml",
  "colonies/<colony>/data/audit-journal.jsonl",
  "colonies/<colony>/data/colony.duckdb",
  "colonies/<colony>/data/segments/log",
  "colonies/<colony>/data/segments/span",
  "config.yaml",
];

describe("CORAL_HOME", () => {
  it("may contain spaces and special characters, and has its files under the golden names, which the next version expects", async () => {
    await using parent = makeTestHome();
    const home = join(parent.path, "my $home'; x");
    await using colony = await startColony({ home });
    await using agent = await startAgent({ home });
    await agent.waitUntilConnected();
    expect((await runCoral(["status"], { home })).stdout).toContain(colony.colonyId);
    const { stdout } = await runCoral(["mcp", "config", "claude-desktop"], { home });
    expect(JSON.parse(stdout)).toMatchObject({ mcpServers: { coral: { env: { CORAL_HOME: home } } } });
    for (const args of [
      ["connect", "api:8080"],
      ["exec", "--", "true"],
      ["agent", "revoke", agent.agentId],
    ])
      expect((await runCoral(args, { home })).code, args.join(" ")).toBe(0);
    const names = readdirSync(home, { recursive: true, encoding: "utf8" });
    const found = new Set(names.map((name) => name.replace(colony.colonyId, "<colony>")));
    expect(goldenFiles.filter((name) => !found.has(name))).toEqual([]);
  });

  it("that is too long for a socket is reported before anything is created", async () => {
    await using parent = makeTestHome();
    const home = join(parent.path, "x".repeat(90));
    for (const args of [["init", "shop"], ["up"], ["agent", "start"], ["agent", "start", "--daemon"]]) {
      const { code, stderr } = await runCoral(args, { home });
      expect(code, args.join(" ")).toBe(64);
      expect(stderr).toMatch(/its path has \d+ bytes and a unix socket allows 107; set CORAL_HOME to a shorter directory/);
    }
    expect(existsSync(join(home, "colonies"))).toBe(false);
  });

  it("that is missing, a file, or without a colony is reported with a hint", async () => {
    await using parent = makeTestHome();
    const missing = await runCoral(["status"], { home: join(parent.path, "nothing/here") });
    expect(missing.code).toBe(4);
    expect(missing.stderr).toMatch(
      /there is none under .*nothing\/here; start one with ".*coral up", or make one with ".*coral init <app>"/,
    );
    expect(existsSync(join(parent.path, "nothing"))).toBe(false);
    const file = join(parent.path, "file");
    writeFileSync(file, "");
    for (const args of [["status"], ["up"], ["init", "shop"]]) {
      const { code, stderr } = await runCoral(args, { home: file });
      expect(code, args.join(" ")).not.toBe(0);
      expect(stderr).toContain("is a file, not a directory");
    }
  });

  it("with two colonies: both run independently, and --colony, CORAL_COLONY and the context select one", async () => {
    await using home = makeTestHome();
    await using first = await startColony({ home: home.path });
    expect((await runCoral(["init", "other", "--env", "prod"], { home: home.path })).code).toBe(0);
    const otherId = (await listLocalColonies(home.path)).find((id) => id !== first.colonyId) ?? "";
    const { code, stderr } = await runCoral(["colony", "start", "--daemon", "--port", "0", "--colony", "other-prod"], { home: home.path });
    expect(code, stderr).toBe(0);
    try {
      const idOf = async (args: string[], env: Record<string, string> = {}): Promise<string> =>
        (await coralJson<{ colony: { colonyId: string } }>(["status", ...args], { home: home.path, env })).colony.colonyId;
      expect(await idOf(["--colony", first.colonyId])).toBe(first.colonyId);
      expect(await idOf(["--colony", "other-prod"])).toBe(otherId);
      expect(await idOf([], { CORAL_COLONY: "test-dev" })).toBe(first.colonyId);
      expect(await idOf([])).toBe(otherId);
      await runCoral(["config", "use-context", "test-dev"], { home: home.path });
      expect(await idOf([])).toBe(first.colonyId);

      await using agent = await startAgent({ home: home.path, args: ["--colony-id", otherId] });
      await agent.waitUntilConnected();
      expect(await coralJson(["agent", "list", "--colony", otherId], { home: home.path })).toMatchObject({ total: 1 });
      expect(await coralJson(["agent", "list", "--colony", "test-dev"], { home: home.path })).toMatchObject({ total: 0 });
    } finally {
      expect((await runCoral(["colony", "stop", "--colony", "other-prod"], { home: home.path })).code).toBe(0);
    }
    const unknown = await runCoral(["status", "--colony", "others-prod"], { home: home.path });
    expect(unknown.code).toBe(4);
    expect(unknown.stderr).toContain('Cannot find colony "others-prod"');
  });
});

describe("other users", () => {
  let reason: string | undefined;
  beforeAll(async () => {
    reason = await otherUserSkipReason();
  });

  it("can use everything that needs no root, and see what is missing and why", async (context) => {
    context.skip(reason !== undefined, reason);
    await using home = makeHomeOf(nobody);
    const [setpriv = "", ...prefix] = asUserArgv(nobody);
    const child = spawn(setpriv, [...prefix, process.execPath, coralFile, "up", "--port", "0"], {
      env: cleanEnvironment(home.path, { HOME: home.path }),
      stdio: ["ignore", "pipe", "pipe"],
    });
    await using up = new DaemonProcess("coral up as nobody", child);
    await up.waitForOutput(/Press Ctrl-C to stop\.\n/);
    expect(up.output).toMatch(/Not available here:\n +! ebpf: .*CAP_BPF.*run as root/);
    expect(up.output).toMatch(/agents +1 healthy/);
    const status = await runCoralAs(nobody, ["agent", "status"], home.path);
    expect(status.stdout).toMatch(/ebpf +.*not permitted: this process lacks CAP_BPF/);
    expect(status.stdout).toMatch(/! .*run the agent as root or with CAP_SYS_PTRACE and CAP_DAC_READ_SEARCH/);
    const doctor = await runCoralAs(nobody, ["doctor"], home.path);
    expect(doctor.code).toBe(0);
    expect(doctor.stdout).toMatch(/! processes .*lacks CAP_SYS_PTRACE and CAP_DAC_READ_SEARCH\n +fix: run as root/);
    expect(await up.kill("SIGINT")).toEqual({ code: 0, signal: null });
  });

  it("are refused on the sockets and cannot stop the daemons, even if file modes allow it", async (context) => {
    context.skip(reason !== undefined, reason);
    await using home = makeTestHome();
    await using colony = await startColony({ home: home.path });
    await using agent = await startAgent({ home: home.path });
    const shut = await runCoralAs(nobody, ["status"], home.path);
    expect(shut.code).toBe(3);
    expect(shut.stderr).toMatch(/permission denied|belongs to another user/);
    for (const path of entriesBelow(home.path)) chmodSync(path, 0o777);
    for (const args of [["status"], ["agent", "status"], ["query", "sql", "SHOW TABLES"], ["colony", "token", "create"]]) {
      const { code, stderr } = await runCoralAs(nobody, args, home.path);
      expect(code, args.join(" ")).toBe(3);
      expect(stderr).toContain("it belongs to uid 0, the caller is uid 65534; run the command as that user or as root");
    }
    const stop = await runCoralAs(nobody, ["agent", "stop"], home.path);
    expect(stop.code).toBe(3);
    expect(stop.stderr).toContain(`process ${agent.pid} belongs to another user; use sudo`);
    chmodSync(colony.paths.pidFile, 0o600);
    const hidden = await runCoralAs(nobody, ["colony", "stop"], home.path);
    expect(hidden.code).toBe(3);
    expect(hidden.stderr).toContain("belongs to another user");
  });

  it("without write access to this home get one error that names the directory", async (context) => {
    context.skip(reason !== undefined, reason);
    await using home = makeTestHome();
    chmodSync(home.path, 0o755);
    for (const args of [["up"], ["init", "shop"], ["agent", "start"], ["agent", "start", "--daemon"]]) {
      const { code, stderr } = await runCoralAs(nobody, args, home.path);
      expect(code, args.join(" ")).toBe(3);
      expect(stderr).toMatch(/^error: Cannot create directory ".*": permission denied; check the owner of the directory\n$/);
    }
    expect((await runCoralAs(nobody, ["agent", "stop"], home.path)).stderr).toBe("agent was not running\n");
  });
});

describe("sudo", () => {
  it("makes the user the owner of everything under CORAL_HOME: database, log, sockets, pid files", async (context) => {
    context.skip(!isRoot, "needs root to be what sudo makes");
    await using home = makeHomeOf(nobody);
    const path = join(home.path, ".coral");
    const env = { SUDO_UID: String(nobody.uid), SUDO_GID: String(nobody.gid), SUDO_USER: "nobody" };
    const coral = (...args: string[]) => runCoral(args, { home: path, env });
    expect((await coral("init", "shop")).code).toBe(0);
    expect((await coral("colony", "start", "--daemon", "--port", "0")).code).toBe(0);
    const [colonyId = ""] = await listLocalColonies(path);
    const foreign = (): string[] =>
      entriesBelow(path).filter((entry) => {
        // DuckDB creates and removes temporary files all the time.
        const found = lstatSync(entry, { throwIfNoEntry: false });
        return found !== undefined && (found.uid !== nobody.uid || found.gid !== nobody.gid);
      });
    try {
      expect((await coral("agent", "start", "--daemon", "--port", "0")).code).toBe(0);
      const { token } = await coralJson<{ token: string }>(["colony", "token", "create", "--kind", "user"], { home: path, env });
      expect((await coral("config", "add-context", "remote", "--token", token)).code).toBe(0);
      await waitFor("a sample", async () => {
        const { hosts } = await coralJson<{ hosts: { sampledAt: string | null }[] }>(["status"], { home: path, env });
        return hosts[0]?.sampledAt;
      });
      for (const file of [colonyPaths(path, colonyId).databaseFile, `${agentPaths(path).databaseFile}.wal`, agentPaths(path).logFile])
        expect(existsSync(file), file).toBe(true);
      expect(foreign()).toEqual([]);
    } finally {
      await coral("agent", "stop");
      await coral("colony", "stop");
    }
    expect(foreign()).toEqual([]);

    if ((await otherUserSkipReason()) !== undefined) return;
    // The same home, without sudo.
    expect((await runCoralAs(nobody, ["colony", "start", "--daemon", "--port", "0"], path)).code).toBe(0);
    try {
      expect((await runCoralAs(nobody, ["query", "sql", "SELECT count(*) FROM host"], path)).code).toBe(0);
    } finally {
      expect((await runCoralAs(nobody, ["colony", "stop"], path)).code).toBe(0);
    }
  });

  it("does not change the owner of files that are linked into the data directory", async (context) => {
    context.skip(!isRoot, "needs root to be what sudo makes");
    await using home = makeHomeOf(nobody);
    const env = { SUDO_UID: String(nobody.uid), SUDO_GID: String(nobody.gid) };
    const { dataDirectory } = agentPaths(home.path);
    mkdirSync(dataDirectory, { recursive: true });
    const secret = join(home.path, "roots-own");
    writeFileSync(secret, "secret", { mode: 0o600 });
    linkSync(secret, join(dataDirectory, "hard"));
    await using agent = await startAgent({ home: home.path, env });
    expect(agent.hasEnded).toBe(false);
    await agent.stop();
    expect(lstatSync(secret).uid).toBe(0);

    const soft = join(dataDirectory, "soft");
    symlinkSync(secret, soft);
    await expect(startAgent({ home: home.path, env })).rejects.toThrow(`Cannot use "${soft}" as root: it is a symbolic link`);
    expect(lstatSync(secret).uid).toBe(0);
  });

  it("does not quote a file of root that a config is linked to", async (context) => {
    context.skip(!isRoot, "needs root to be what sudo makes");
    await using home = makeHomeOf(nobody);
    const env = { SUDO_UID: String(nobody.uid), SUDO_GID: String(nobody.gid) };
    const { configFile } = agentPaths(home.path);
    mkdirSync(dirname(configFile), { recursive: true });
    writeFileSync(join(home.path, "roots-own"), "swordfish: true", { mode: 0o600 });
    symlinkSync(join(home.path, "roots-own"), configFile);
    lchownSync(configFile, nobody.uid, nobody.gid);
    for (const command of [
      ["agent", "start"],
      ["config", "view"],
      ["config", "validate"],
    ]) {
      const { code, stdout, stderr } = await runCoral(command, { home: home.path, env });
      expect(code).not.toBe(0);
      expect(stdout + stderr).toContain("it is a symbolic link");
      expect(stdout + stderr).not.toContain("swordfish");
    }
  });
});
