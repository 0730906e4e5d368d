import { spawn } from "node:child_process";
import { chmod, copyFile, mkdir, mkdtemp, rm, stat, symlink, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { CoralError } from "../../base/errors.ts";
import { createTestRunner, type TestRunner, testSettings } from "../command-runner.fixture.ts";
import { commandEnvironment } from "../processes/command-environment.ts";
import { type Attempt, bypassAttempts } from "./bypass-attempts.fixture.ts";
import { formatCommand, parseCommand, stageOfArgv } from "./parse-command.ts";
import { decide } from "./policy.ts";
import { diagnosticPrograms } from "./profiles/diagnostic-programs.ts";
import { createRootFiles, type RootFiles } from "./root-files.ts";

const secret = "the secret that must not be shown";
let directory: string;
let files: RootFiles;
let runner: TestRunner;

/** A root in which every program named below exists, so that any denial comes from the policy. */
async function makeRoot(root: string): Promise<void> {
  const names = new Set([
    ...Object.keys(diagnosticPrograms),
    ...bypassAttempts.flatMap(({ text, argv }) => (argv?.[0] ?? text?.split(/[\s;|&]/)[0] ?? "").replaceAll(/[^\w.-]/g, "")),
  ]);
  for (const place of ["usr/bin", "var/log", "etc"]) await mkdir(join(root, place), { recursive: true });
  await symlink("usr/bin", join(root, "bin"));
  for (const name of names)
    if (name !== "" && !/^\.+$/.test(name)) await writeFile(join(root, "usr/bin", name), "\x7fELF", { mode: 0o755 });
}

beforeAll(async () => {
  directory = await mkdtemp(join(tmpdir(), "coral-bypass-"));
  await chmod(directory, 0o777);
  await makeRoot(join(directory, "root"));
  files = createRootFiles(join(directory, "root"));
  await writeFile(join(directory, "secret"), secret, { mode: 0o644 });
  await copyFile("/bin/sh", join(directory, "ps"));
  await chmod(join(directory, "ps"), 0o755);
  await symlink("/bin/sh", join(directory, "link-ps"));
  await writeFile(join(directory, "script-ps"), "#!/bin/sh\ntouch canary\n", { mode: 0o755 });
  for (const log of logDirectories()) {
    await mkdir(log, { recursive: true });
    await symlink(log.startsWith(directory) ? "/etc/shadow" : join(directory, "secret"), join(log, "link"));
    await symlink("/etc", join(log, "out"));
  }
  await writeFile(join(directory, "root/etc/shadow"), secret);
  runner = createTestRunner({ profile: "diagnostics", timeoutMs: 2_000 }, join(directory, "recordings"));
});
afterAll(async () => {
  for (const log of logDirectories()) await rm(log, { recursive: true, force: true });
  await runner[Symbol.asyncDispose]();
  await rm(directory, { recursive: true });
});

/** Links among the logs, in the fake root and, where possible, in the real one. */
function logDirectories(): string[] {
  return [join(directory, "root"), ...(process.getuid?.() === 0 ? [""] : [])].map((root) => `${root}/var/log/coral-bypass-test`);
}

function filled(attempt: Attempt): Attempt {
  const fill = (text: string): string =>
    text.replaceAll("CANARY", join(directory, "canary")).replaceAll("SECRET", join(directory, "secret")).replaceAll("DIR", directory);
  return {
    ...(attempt.text === undefined ? {} : { text: fill(attempt.text) }),
    ...(attempt.argv === undefined ? {} : { argv: attempt.argv.map(fill) }),
    ...(attempt.environment === undefined
      ? {}
      : { environment: Object.fromEntries(Object.entries(attempt.environment).map(([name, value]) => [name, fill(value)])) }),
    ...(attempt.workingDirectory === undefined ? {} : { workingDirectory: fill(attempt.workingDirectory) }),
  };
}

/** The reason for the denial; undefined if the attempt would run. */
function refusedBecause({ text = "", argv, environment = {}, workingDirectory = "" }: Attempt): string | undefined {
  try {
    const stages = argv ? [stageOfArgv(argv)] : parseCommand(text);
    const question = {
      stages,
      kind: "exec",
      caller: "x",
      targets: ["host"],
      environment: "",
      isReadOnly: false,
      files,
      workingDirectory,
    } as const;
    const decision = decide({ ...testSettings, profile: "diagnostics" }, question);
    if (decision.action !== "allow") return decision.why;
    commandEnvironment({
      requested: environment,
      allowed: ["*"],
      isDiagnostic: true,
      user: { name: "nobody", home: "/" },
      terminalType: "",
      commandId: "x",
    });
    return undefined;
  } catch (error) {
    return error instanceof CoralError ? error.message : undefined;
  }
}

describe("the read-only profile", () => {
  it("is tested with more than 300 bypass attempts", () => {
    const different = new Set(bypassAttempts.map((attempt) => JSON.stringify(attempt)));
    expect(different.size).toBeGreaterThan(300);
  });

  it.each(bypassAttempts.map((attempt) => [JSON.stringify(attempt), attempt] as const))("refuses %s", (_name, attempt) => {
    expect(refusedBecause(filled(attempt))).toEqual(expect.any(String));
  });

  it("denies them when they are executed: no file is written, no secret is shown", async () => {
    // Only root can put links among the real logs.
    const tried = bypassAttempts.filter(
      ({ argv }) => process.getuid?.() === 0 || !argv?.some((word) => word.startsWith("/var/log/coral-bypass-test")),
    );
    for (const attempt of tried) {
      const order = filled(attempt);
      const result = await runner
        .run({ ...order, ...(order.text === undefined ? {} : { text: order.text }) })
        .catch((error: unknown) => error);
      const name = JSON.stringify(attempt);
      expect(result, name).toBeInstanceOf(CoralError);
      await expect(stat(join(directory, "canary")), name).rejects.toThrow("ENOENT");
    }
    const phases = new Set(runner.audit.map(({ phase }) => phase));
    expect(phases).toEqual(new Set(["denied"]));
    expect(runner.audit).toHaveLength(tried.length);
  });

  it.each([
    "ps aux",
    "ps -ef",
    "ps -eo pid,ppid,rss,args --sort=-rss",
    "ps aux --sort=-%mem | head -n 5",
    "ps -p 1,2 -o pid,comm",
    "ps -eLf",
    "ps -e -u root",
    "ss -tlnp",
    "ss -s",
    "ss state established '( sport = :443 )'",
    "netstat -tulpn",
    "lsof -i :8080 -n -P",
    "lsof -p 1",
    "top -b -n 1",
    "top -bn1 -o %MEM | head -20",
    "free -h",
    "df -h /",
    "iostat -x 1 3",
    "vmstat 1 5",
    "mpstat -P ALL 1 1",
    "pidstat -u 1 2",
    "dmesg -T",
    "dmesg --level=err,warn",
    "journalctl -u nginx --since '1 hour ago' -n 100",
    "journalctl -u nginx.service -p err -o json",
    "journalctl _PID=1 -f",
    "ip addr",
    "ip -br a",
    "ip route get 1.1.1.1",
    "ip -s link show dev eth0",
    "ip -j addr show",
    "dig example.com",
    "dig @8.8.8.8 example.com AAAA +short",
    "curl -I https://example.com",
    "curl -sSI 'http://example.com/a?b=c'",
    "curl -s http://localhost:8080/health",
    "curl -s -o /dev/null -w '%{http_code} %{time_total}' http://127.0.0.1:8080/",
    "curl -H 'Accept: application/json' http://10.0.0.5:80/x",
    "strace -c -p 1",
    "strace -f -c -p 1 -e trace=%network",
    "tcpdump -i any -c 100 -nn port 80",
    "tcpdump -c 20 'host 10.0.0.1 and tcp'",
    "tcpdump -qc 20 icmp",
    "cat /proc/meminfo",
    "cat /proc/1/status",
    "cat /proc/net/tcp",
    "cat /proc/self/limits",
    "tail -n 50 /var/log/syslog",
    "tail -f /var/log/nginx/access.log",
    "grep -i error /var/log/app.log | tail -n 5",
    "ps aux | grep -v root | sort -k3 -nr | head -5 | cut -c1-80",
    "find /var/log -name '*.log' -size +10M -mtime -1",
    "find / -xdev -type f -size +100M -printf '%s %p\\n'",
    "ls -la /etc",
    "stat /etc/hosts",
    "du -sh /var/log",
    "systemctl status nginx",
    "systemctl list-units --failed",
    "sysctl net.core.somaxconn",
    "getent hosts example.com",
    "ping -c 3 127.0.0.1",
    "traceroute -n 127.0.0.1",
    "date +%s",
    "uptime",
    "uname -a",
    "hostname -f",
    "lsblk",
    "id",
    "echo hello",
    "wc -l /etc/hosts",
    "cat /etc/os-release",
  ])("allows %s", (text) => {
    expect(refusedBecause({ text })).toBeUndefined();
  });

  it("shows no environment variables with BSD-style ps options", async () => {
    const ids = process.getuid?.() === 0 ? { uid: 65_534, gid: 65_534 } : {};
    const watched = spawn("/bin/sleep", ["100"], { ...ids, env: { MARK: secret } });
    const pid = String(watched.pid);
    for (const text of ["-e -O comm -f PID", "-ep 1 -o args -f PID", "-ef -O args PID", "-e -u xw PID", "-eLf", "-e --sort -etime PID"]) {
      const { stdout, stderr } = await runner.run({ text: `ps ${text.replace("PID", pid)}` });
      expect(stdout + stderr, text).not.toContain(secret);
    }
    expect((await runner.run({ text: `ps -e -o pid,args --sort -etime` })).stdout).toContain(`${pid} /bin/sleep 100`);
    watched.kill();
  });

  it("resolves links before allowing a log file", async () => {
    await mkdir(join(directory, "root/root"), { recursive: true });
    await writeFile(join(directory, "root/root/key"), "x");
    await symlink("/root/key", join(directory, "root/var/log/innocent.log"));
    await symlink("real.log", join(directory, "root/var/log/current.log"));
    await writeFile(join(directory, "root/var/log/real.log"), "x");
    expect(refusedBecause({ text: "cat /var/log/innocent.log" })).toContain("is a link to /root/key");
    expect(refusedBecause({ text: "cat /var/log/current.log" })).toBeUndefined();
  });

  it("decides equally for a command that is formatted and parsed again", () => {
    for (const attempt of bypassAttempts) {
      const { text } = filled(attempt);
      if (text === undefined || attempt.environment || attempt.workingDirectory) continue;
      try {
        expect(refusedBecause({ text: formatCommand(parseCommand(text)) })).toEqual(expect.any(String));
      } catch (error) {
        expect(error).toBeInstanceOf(CoralError);
      }
    }
  });
});

describe("programs of the read-only profile", () => {
  it.each<[string, (root: string) => Promise<void>, string | undefined]>([
    ["a link to a shell", (root) => symlink("bash", join(root, "usr/bin/ps")), "is a link to /usr/bin/bash"],
    [
      "a link to env by another link",
      async (root) => {
        await symlink("/etc/alternatives/ps", join(root, "usr/bin/ps"));
        await mkdir(join(root, "etc/alternatives"), { recursive: true });
        await symlink("/usr/bin/env", join(root, "etc/alternatives/ps"));
      },
      "is a link to /usr/bin/env",
    ],
    ["a script", (root) => writeFile(join(root, "usr/bin/ps"), "#!/bin/sh\n", { mode: 0o755 }), "is a script, not a binary"],
    [
      "a world-writable file",
      async (root) => {
        await writeFile(join(root, "usr/bin/ps"), "\x7fELF", { mode: 0o755 });
        await chmod(join(root, "usr/bin/ps"), 0o777);
      },
      "can be changed by other users",
    ],
    [
      "a world-writable directory",
      async (root) => {
        await writeFile(join(root, "usr/bin/ps"), "\x7fELF", { mode: 0o755 });
        await chmod(join(root, "usr/bin"), 0o777);
      },
      "can be changed by other users",
    ],
    [
      "a link that leads out of its directory and back",
      async (root) => {
        await writeFile(join(root, "usr/bin/ps.real"), "\x7fELF", { mode: 0o755 });
        await symlink("../../../../../usr/bin/ps.real", join(root, "usr/bin/ps"));
      },
      undefined,
    ],
    ["a file that is not executable", (root) => writeFile(join(root, "usr/bin/ps"), "\x7fELF", { mode: 0o644 }), "no such program"],
    ["a link in a circle", (root) => symlink("ps", join(root, "usr/bin/ps")), "no such program"],
    [
      "an applet that the profile has",
      async (root) => {
        await writeFile(join(root, "usr/bin/busybox"), "\x7fELF", { mode: 0o755 });
        await symlink("busybox", join(root, "usr/bin/ps"));
      },
      undefined,
    ],
  ])("are resolved to their real file: %s", async (_name, make, expected) => {
    const root = await mkdtemp(join(directory, "r-"));
    await chmod(root, 0o755);
    await mkdir(join(root, "usr/bin"), { recursive: true });
    for (const name of ["bash", "env"]) await writeFile(join(root, "usr/bin", name), "\x7fELF", { mode: 0o755 });
    await make(root);
    const question = {
      stages: parseCommand("ps"),
      kind: "exec",
      caller: "x",
      targets: ["host"],
      environment: "",
      isReadOnly: false,
      files: createRootFiles(root),
      workingDirectory: "",
    } as const;
    const outcome = (): string | undefined => {
      try {
        const { action, why } = decide({ ...testSettings, profile: "diagnostics" }, question);
        return action === "allow" ? undefined : why;
      } catch (error) {
        return error instanceof CoralError ? error.message : String(error);
      }
    };
    if (expected === undefined) expect(outcome()).toBeUndefined();
    else expect(outcome()).toContain(expected);
  });
});
