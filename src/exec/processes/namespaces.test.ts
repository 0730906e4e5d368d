import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync, readlinkSync } from "node:fs";
import { chmod, copyFile, mkdir, mkdtemp, rm, symlink, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { processesWithVariable, viewProcess } from "../../host/index.ts";
import { createTestRunner } from "../command-runner.fixture.ts";

/** Only root can enter other processes' namespaces. */
const isPossible = process.getuid?.() === 0 && existsSync("/usr/bin/nsenter") && existsSync("/usr/bin/unshare");

describe.runIf(isPossible)("commands in a process's namespaces", () => {
  let directory: string;
  let target: ChildProcess;
  let pid: number;

  beforeAll(async () => {
    directory = await mkdtemp(join(tmpdir(), "coral-ns-"));
    await chmod(directory, 0o755);
    // Its own mounts, processes, network and hostname, and a file that only it can see.
    const script = `mount -t tmpfs none ${directory} && hostname inside && echo only-here > ${directory}/file && echo ready && exec sleep 1000`;
    target = spawn("unshare", ["--mount", "--pid", "--net", "--uts", "--ipc", "--fork", "--mount-proc", "sh", "-c", script], {
      stdio: ["ignore", "pipe", "inherit"],
      env: { ...process.env, CORAL_NS_TEST: directory },
    });
    await once(target.stdout ?? target, "data");
    // unshare itself stays outside; its child is the target.
    pid = processesWithVariable(`CORAL_NS_TEST=${directory}`).find((candidate) => viewProcess(candidate)?.namespaces.includes("pid")) ?? 0;
  });
  afterAll(async () => {
    process.kill(pid, "SIGKILL");
    await once(target, "exit");
    await rm(directory, { recursive: true });
  });

  const beside = () => ({ kind: "service" as const, service: "api", container: "", pid: 0 });
  const runner = (options = {}) => createTestRunner({ ...options }, directory, { pidsOf: async () => [pid] });

  it("have its view of files, processes and network, as nobody", async () => {
    await using test = runner();
    expect((await test.run({ argv: ["cat", `${directory}/file`], target: beside() })).stdout).toBe("only-here\n");
    expect((await test.run({ argv: ["hostname"], target: beside() })).stdout).toBe("inside\n");
    expect((await test.run({ argv: ["readlink", "/proc/self/ns/net"], target: beside() })).stdout.trim()).toBe(
      readlinkSync(`/proc/${pid}/ns/net`),
    );
    expect((await test.run({ argv: ["id", "-u"], target: beside() })).stdout).toBe("65534\n");
    expect((await test.run({ argv: ["sh", "-c", "ls /proc | grep -c '^[0-9]'"], target: beside() })).stdout).toMatch(/^[1-9]\n$/);
    expect((await test.run({ argv: ["grep", "NoNewPrivs", "/proc/self/status"], target: beside() })).stdout).toContain("1");
    expect(test.audit[0]).toMatchObject({ where: `service api, pid ${pid}`, target: "service api" });
  });

  it("return exit codes and signals, and leave no process behind", async () => {
    await using patient = runner();
    expect(await patient.run({ argv: ["sh", "-c", "exit 9"], target: beside() })).toMatchObject({ exitCode: 9 });
    await using test = runner({ timeoutMs: 300 });
    const end = await test.run({ argv: ["sh", "-c", "setsid sleep 999 & trap '' TERM; sleep 1000; sleep 1001"], target: beside() });
    expect(end).toMatchObject({ reason: "timeout" });
    expect(processesWithVariable(`CORAL_COMMAND_ID=${end.commandId}`)).toEqual([]);
  });

  it("support a working directory of the target, and a terminal", async () => {
    await using test = runner();
    expect((await test.run({ argv: ["pwd"], target: beside(), workingDirectory: directory })).stdout).toBe(`${directory}\n`);
    expect((await test.run({ argv: ["cat", "file"], target: beside(), workingDirectory: directory })).stdout).toBe("only-here\n");
    const shell = await test.run({
      kind: "shell",
      argv: ["/bin/sh", "-c", "stty size; hostname"],
      target: beside(),
      terminal: { columns: 90, rows: 20, type: "xterm" },
    });
    expect(shell.stdout).toContain("20 90\r\ninside");
  });

  it("are denied as root without a runtime to confine them", async () => {
    await using test = runner({ runAs: "root" });
    await expect(test.run({ argv: ["id"], target: beside() })).rejects.toThrow("Cannot run as root inside the namespaces");
  });

  it("resolve programs and links in the target's view", async () => {
    const root = await mkdtemp(join(tmpdir(), "coral-root-"));
    await chmod(root, 0o755);
    await mkdir(join(root, "bin"));
    await copyFile("/bin/true", join(root, "outside"));
    await symlink("/../../../../../bin/sh", join(root, "bin/ps"));
    await writeFile(join(root, "x"), "");
    const { createRootFiles } = await import("../policy/root-files.ts");
    // The link points to /bin/sh of the target, which does not exist.
    expect(createRootFiles(root).resolve("/bin/ps")).toBeNull();
    await rm(root, { recursive: true });
  });
});
