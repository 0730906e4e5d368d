import { createHash } from "node:crypto";
import { chmod, mkdir, readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { CoralError } from "../base/errors.ts";
import { left, never, noHold, testOrder, testRule, useRunners } from "./command-runner.fixture.ts";

const isRoot = process.getuid?.() === 0;
const runners = useRunners();
const { create } = runners;

describe("CommandRunner", () => {
  it("separates stdout, stderr and the exit code", async () => {
    const end = await create().run({ argv: ["sh", "-c", "echo out; echo err >&2; exit 7"] });
    expect(end).toMatchObject({ stdout: "out\n", stderr: "err\n", exitCode: 7, reason: "exited", stdoutBytes: 4, stderrBytes: 4 });
  });

  it("denies and audits commands that the runtime does not support", async () => {
    const absent = (kind: string) => (kind === "exec" ? { reason: "passive mode", fix: "Mount CRI socket" } : null);
    const { run, audit } = create({}, { absent });
    await expect(run({ argv: ["true"] })).rejects.toMatchObject({
      code: "unsupported",
      message: "Cannot exec here: passive mode; Mount CRI socket",
    });
    expect(audit).toMatchObject([{ phase: "denied", reason: "Cannot exec here: passive mode; Mount CRI socket" }]);
    expect(await run({ kind: "run", argv: ["true"] })).toMatchObject({ exitCode: 0 });
  });

  it("runs pipelines and returns the last program's exit code", async () => {
    expect(await create().run({ text: "echo 'a b' | tr a-z A-Z | cat" })).toMatchObject({ stdout: "A B\n", exitCode: 0 });
    expect(await create().run({ text: "true | false" })).toMatchObject({ exitCode: 1 });
    expect(await create().run({ text: "false | true" })).toMatchObject({ exitCode: 0 });
    expect(await create().run({ text: "yes | head -n 3" })).toMatchObject({ stdout: "y\ny\ny\n", exitCode: 0 });
  });

  it("applies stderr redirections", async () => {
    expect(await create().run({ text: "ls /nonexistent 2>&1 | wc -l" })).toMatchObject({ stdout: "1\n", stderr: "" });
    expect(await create().run({ text: "ls /nonexistent 2>/dev/null" })).toMatchObject({ stdout: "", stderr: "" });
    expect(await create().run({ text: "ls / /nonexistent >/dev/null" })).toMatchObject({ stdout: "" });
    expect(await create().run({ text: "ls / /nonexistent >/dev/null 2>&1 | wc -l" })).toMatchObject({ stdout: "0\n" });
    expect(await create().run({ text: "ls / /nonexistent 2>&1 >/dev/null | wc -l" })).toMatchObject({ stdout: "1\n" });
  });

  it("passes stdin bytes unchanged and closes it", async () => {
    const { runner } = create();
    const { running, ended } = await runner.start(testOrder({ argv: ["sha256sum"] }), never, noHold);
    const bytes = Buffer.from(Array.from({ length: 1_000_000 }, (_, index) => (index * 7) % 256));
    for (let at = 0; at < bytes.length; at += 65_536) await running.write(bytes.subarray(at, at + 65_536));
    running.endInput();
    let output = "";
    for await (const { data } of running.output()) output += Buffer.from(data).toString();
    expect(await ended).toMatchObject({ exitCode: 0 });
    expect(output).toBe(`${createHash("sha256").update(bytes).digest("hex")}  -\n`);
  });

  it("streams a gigabyte without buffering it, with backpressure", async () => {
    const { runner } = create();
    const beforeBytes = process.memoryUsage().rss;
    const { running, ended } = await runner.start(testOrder({ argv: ["head", "-c", String(1024 ** 3), "/dev/zero"] }), never, noHold);
    let bytes = 0;
    let peakBytes = 0;
    for await (const { data } of running.output()) {
      if (bytes === 0) await new Promise((resolve) => setTimeout(resolve, 100));
      bytes += data.byteLength;
      peakBytes = Math.max(peakBytes, process.memoryUsage.rss());
    }
    expect(bytes).toBe(1024 ** 3);
    expect(await ended).toMatchObject({ exitCode: 0, stdoutBytes: 1024 ** 3 });
    expect(peakBytes - beforeBytes).toBeLessThan(200 * 1024 ** 2);
  }, 60_000);

  it("kills a command above the output limit and delivers the output up to it", async () => {
    const end = await create({ maxOutputBytes: 100_000 }).run({ argv: ["sh", "-c", "yes & yes"] });
    expect(end).toMatchObject({ reason: "output-limit", stdoutBytes: 100_000 });
    expect(end.stdout).toHaveLength(100_000);
    expect(left(end.commandId)).toEqual([]);
  });

  it("kills a timed-out command and all its descendants", async () => {
    const end = await create({ timeoutMs: 300 }).run({
      argv: ["sh", "-c", "trap '' TERM; setsid sleep 1000 & (setsid sh -c 'sleep 1001 & sleep 1002' &) ; wait; sleep 1003"],
    });
    expect(end).toMatchObject({ reason: "timeout", exitCode: 124 });
    expect(left(end.commandId)).toEqual([]);
  });

  it("finds daemonized descendants without cgroups", async () => {
    const groups = { parents: [], limited: [], create: async () => undefined, close: () => undefined };
    const runner = create({ timeoutMs: 300 }, { groups });
    const end = await runner.run({
      argv: ["sh", "-c", "trap '' TERM; setsid sleep 1000 & (setsid sh -c 'sleep 1001 & sleep 1002' &); wait; sleep 1003"],
    });
    expect(end).toMatchObject({ reason: "timeout", exitCode: 124 });
    expect(left(end.commandId)).toEqual([]);
  });

  it.runIf(isRoot)("finds a descendant without environment and session by its cgroup", async () => {
    const groups = { parents: [], limited: [], create: async () => undefined, close: () => undefined };
    const runner = create({}, { groups });
    const file = join(runners.directory, "pid");
    const script = `env -i /usr/bin/setsid /bin/sh -c 'echo $$ > ${file}; exec /bin/sleep 1000' >/dev/null 2>&1 & while ! test -s ${file}; do sleep 0.02; done`;
    expect(await runner.run({ argv: ["sh", "-c", script] })).toMatchObject({ exitCode: 0 });
    const pid = Number(await readFile(file, "utf8"));
    expect(() => process.kill(pid, 0)).toThrow("ESRCH");
  });

  it("kills leftover processes when the command exits", async () => {
    const end = await create().run({ argv: ["sh", "-c", "setsid sleep 1000 >/dev/null 2>&1 & (setsid setsid sleep 1001 &); echo done"] });
    expect(end).toMatchObject({ reason: "exited", exitCode: 0, stdout: "done\n" });
    expect(left(end.commandId)).toEqual([]);
  });

  it("kills a command when its caller disconnects", async () => {
    const { runner, audit } = create();
    const caller = new AbortController();
    const order = testOrder({ argv: ["sh", "-c", "echo ready; sleep 1000 & wait"] });
    const { running, ended } = await runner.start(order, caller.signal, noHold);
    for await (const { data } of running.output()) {
      expect(Buffer.from(data).toString()).toBe("ready\n");
      break;
    }
    caller.abort();
    expect(await ended).toMatchObject({ reason: "cancelled" });
    expect(left(order.commandId)).toEqual([]);
    expect(audit.map(({ phase }) => phase)).toEqual(["begun", "ended"]);
    expect(audit[1]).toMatchObject({ reason: "cancelled", command: order.argv.length > 0 ? expect.stringContaining("sleep 1000") : "" });
  });

  it.each([
    ["pipes", undefined],
    ["a terminal", { columns: 80, rows: 24, type: "xterm" }],
  ])("leaves no process behind when the caller disconnects after the command exited, with %s", async (_name, terminal) => {
    const { running } = await create().runner.start(testOrder({ argv: ["true"], terminal }), never, noHold);
    running.drain();
    await running.ended;
    const timers = (): number => process.getActiveResourcesInfo().filter((name) => name === "Timeout").length;
    const before = timers();
    running.stop("cancelled");
    expect(timers()).toBe(before);
  });

  it("forwards signals", async () => {
    const { runner } = create();
    const { running, ended } = await runner.start(
      testOrder({ argv: ["sh", "-c", "trap 'echo got; exit 5' INT; echo ready; while :; do sleep 0.05; done"] }),
      never,
      noHold,
    );
    let output = "";
    for await (const { data } of running.output()) {
      output += Buffer.from(data).toString();
      if (output === "ready\n") running.signal("INT");
    }
    expect(output).toBe("ready\ngot\n");
    expect(await ended).toMatchObject({ exitCode: 5, reason: "exited" });
  });

  it("reports death by signal as a shell does", async () => {
    expect(await create().run({ argv: ["sh", "-c", "kill -SEGV $$"] })).toMatchObject({
      reason: "signalled",
      signal: "SIGSEGV",
      exitCode: 139,
    });
  });

  it("runs commands in a clean environment without the agent's variables", async () => {
    process.env["CORAL_TEST_SECRET"] = "hidden";
    const { stdout } = await create().run({ argv: ["env"], environment: { GREETING: "hello" } });
    delete process.env["CORAL_TEST_SECRET"];
    expect(stdout).toContain("GREETING=hello\n");
    expect(stdout).not.toContain("CORAL_TEST_SECRET");
    expect(stdout).toContain("PAGER=cat\n");
  });

  it.each(["LD_PRELOAD", "BASH_ENV", "GLIBC_TUNABLES", "LD_AUDIT"])(
    "rejects the variable %s from a caller, in every profile",
    async (name) => {
      await expect(create().run({ argv: ["true"], environment: { [name]: "/tmp/x.so" } })).rejects.toThrow(
        `Cannot set the variable "${name}"`,
      );
    },
  );

  it("rejects variables that are not listed explicitly for commands allowed by a rule", async () => {
    const rules = [testRule({ action: "allow", program: ["env"], args: ["-u", "X"] })];
    const requested = { argv: ["env", "-u", "X"], environment: { GIT_SSH_COMMAND: "touch /tmp/x" } };
    await expect(create({ profile: "diagnostics", rules }).run(requested)).rejects.toThrow('Cannot set the variable "GIT_SSH_COMMAND"');
    await expect(create({ rules }).run(requested)).rejects.toThrow("exec.environment_allow");
    expect((await create({ rules, environmentAllow: ["*", "GIT_*"] }).run(requested)).stdout).toContain("GIT_SSH_COMMAND");
    expect((await create({ rules }).run({ ...requested, environment: { LANG: "de_DE.UTF-8" } })).stdout).toContain("LANG=de_DE.UTF-8");
  });

  it.runIf(isRoot)("runs as nobody, without capabilities, groups or a way to regain them", async () => {
    const { stdout } = await create().run({ argv: ["cat", "/proc/self/status"] });
    expect(stdout).toMatch(/^Uid:\s+65534\s+65534\s+65534\s+65534$/m);
    expect(stdout).toMatch(/^Groups:\s*$/m);
    for (const set of ["CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"]) expect(stdout).toMatch(new RegExp(`^${set}:\\s+0+$`, "m"));
    expect(stdout).toMatch(/^NoNewPrivs:\s+1$/m);
  });

  it.runIf(isRoot)("grants a program of the profile only the capabilities it needs", async () => {
    const { stdout } = await create({ profile: "diagnostics" }).run({ text: "ss -tlnp" });
    expect(stdout).toContain("State");
    const runner = create({ rules: [testRule({ action: "allow", program: ["id"], runAs: "root" })], profile: "diagnostics" });
    expect((await runner.run({ text: "id -u" })).stdout).toBe("0\n");
    expect((await runner.run({ text: "whoami" })).stdout).toBe("nobody\n");
  });

  it.runIf(isRoot)("enforces process and memory limits", async () => {
    const runner = create({ limits: { memoryBytes: 64 * 1024 ** 2, cpus: 1, processes: 20 } });
    if (!runner.runner.limited.includes("pids")) return;
    const bomb = await runner.run({ argv: ["sh", "-c", "for i in $(seq 100); do sleep 100 & done; echo survived"] });
    expect(bomb.stderr).toContain("fork");
    expect(left(bomb.commandId)).toEqual([]);
    const hog = await runner.run({ argv: ["sh", "-c", "head -c 300m /dev/zero | tail -c 300m | wc -c"] });
    expect(hog.stdout).not.toBe("314572800\n");
  });

  it("lets no program of the read-only profile write a file, temporary ones included", async () => {
    const temporary = join(runners.directory, "temporary");
    await mkdir(temporary, { mode: 0o777 });
    await chmod(temporary, 0o777);
    const { run } = create({ profile: "diagnostics" });
    const numbers = Array.from({ length: 20_000 }, (_, index) => `${(index * 7_919) % 20_000}\n`).join("");
    const sorted = await run({ text: "sort -n | tail -n 1" }, numbers);
    expect(sorted).toMatchObject({ stdout: "19999\n", stderr: "", exitCode: 0 });
    await expect(run({ text: "sort -S 1K" })).rejects.toThrow('option "-S" is not allowed');
    await expect(run({ text: "ps aux | tac" })).rejects.toThrow("temporary file");
    // Both ways of starting a program: directly, and from a prepared process.
    for (let round = 0; round < 2; round++) {
      const { stdout } = await run({ text: "cat /proc/self/limits" });
      expect(stdout).toMatch(/^Max file size\s+0\s+0\s+bytes/m);
      expect(stdout).toMatch(/^Max data size\s+268435456\s+268435456\s+bytes/m);
    }
    const open = await create().run({ argv: ["sh", "-c", `echo x >${join(temporary, "x")}; ulimit -f`] });
    expect(open.stdout).toBe("unlimited\n");
  });

  it("fails a sort that is too large for its memory, instead of filling a disk", async () => {
    const { runner } = create({ profile: "diagnostics", limits: { memoryBytes: 24 * 1024 ** 2, cpus: 2, processes: 64 } });
    const { running, ended } = await runner.start(testOrder({ argv: ["sort"] }), never, noHold);
    const feed = async (): Promise<void> => {
      const block = Buffer.from("0123456789abcdef\n".repeat(4_096));
      for (let at = 0; at < 600; at++) await running.write(block);
      running.endInput();
    };
    const fed = feed().catch(() => undefined);
    let stderr = "";
    for await (const { stream, data } of running.output()) if (stream === "stderr") stderr += Buffer.from(data).toString();
    await fed;
    expect((await ended).exitCode).not.toBe(0);
    expect(stderr).toMatch(/no-temporary-files-in-the-read-only-profile|memory/);
  });

  it("uses the requested working directory, as the user", async () => {
    await chmod(runners.directory, 0o755);
    expect((await create().run({ argv: ["pwd"], workingDirectory: runners.directory })).stdout).toBe(`${runners.directory}\n`);
    await expect(create().run({ argv: ["pwd"], workingDirectory: "relative" })).rejects.toThrow("absolute path");
    if (!isRoot) return;
    await chmod(runners.directory, 0o700);
    expect(await create().run({ argv: ["pwd"], workingDirectory: runners.directory })).toMatchObject({ exitCode: 125, stdout: "" });
  });

  it("limits the number of concurrent commands", async () => {
    const { runner } = create({ maxRunning: 1 });
    const first = await runner.start(testOrder({ argv: ["sleep", "1000"] }), never, noHold);
    await expect(runner.start(testOrder({ argv: ["true"] }), never, noHold)).rejects.toThrow("exec.max_running");
    await first.running[Symbol.asyncDispose]();
    await first.ended;
    const second = await runner.start(testOrder({ argv: ["true"] }), never, noHold);
    expect(await second.ended).toMatchObject({ exitCode: 0 });
  });

  it("audits every denial", async () => {
    const { run, audit } = create({ profile: "diagnostics" });
    await expect(run({ text: "rm -rf /" })).rejects.toMatchObject({ code: "not-permitted", details: { rule: "profile diagnostics" } });
    await expect(run({ text: "ps;id" })).rejects.toMatchObject({ code: "usage" });
    await expect(run({ text: "no-such-program-here" })).rejects.toMatchObject({ code: "not-found" });
    await expect(run({ kind: "shell", terminal: { columns: 80, rows: 24, type: "xterm" } })).rejects.toThrow(
      "the read-only profile has no shell",
    );
    expect(audit.map(({ phase }) => phase)).toEqual(["denied", "denied", "denied", "denied"]);
    expect(audit[0]).toMatchObject({ command: "rm -rf /", rule: "profile diagnostics", reason: expect.stringContaining("rm") });
  });

  it("runs nothing if the audit log cannot be written", async () => {
    const runner = create(
      {},
      {
        audit: {
          write: async () => {
            throw new CoralError({ code: "unavailable", message: "Cannot keep the audit: the disk is full" });
          },
        },
      },
    );
    const canary = join(runners.directory, "canary");
    await expect(runner.run({ argv: ["touch", canary] })).rejects.toThrow("the disk is full");
    await expect(readFile(canary)).rejects.toThrow("ENOENT");
  });

  it("denies everything with the profile off, with and without rules", async () => {
    await expect(create({ profile: "off", rules: [testRule({ action: "allow" })] }).run({ text: "true" })).rejects.toThrow(
      "exec.profile: off",
    );
  });

  it("restricts a command to the read-only profile on request", async () => {
    const { run } = create({ profile: "full", rules: [testRule({ action: "allow", program: ["touch"] })] });
    await expect(run({ argv: ["touch", join(runners.directory, "x")], isReadOnly: true })).rejects.toThrow(
      "not in the diagnostics profile",
    );
    expect(await run({ text: "true", isReadOnly: true })).toMatchObject({ exitCode: 0 });
  });
});

describe("run", () => {
  it("names the program as a service, and keeps a detached one running without its caller", async () => {
    const launched: string[] = [];
    const runner = create(
      {},
      {
        onLaunched: ({ name, pid }) => {
          expect(pid).toBeGreaterThan(1);
          launched.push(`+${name}`);
          return () => launched.push(`-${name}`);
        },
      },
    );
    const caller = new AbortController();
    const flag = join(runners.directory, "go");
    const order = testOrder({
      kind: "run",
      argv: ["sh", "-c", `echo $OTEL_SERVICE_NAME; while ! test -e ${flag}; do sleep 0.05; done; exit 4`],
      serviceName: "worker",
      isDetached: true,
    });
    const { running, ended } = await runner.runner.start(order, caller.signal, noHold);
    for await (const { data } of running.output()) {
      expect(Buffer.from(data).toString()).toBe("worker\n");
      break;
    }
    caller.abort();
    expect(left(order.commandId).length).toBeGreaterThan(0);
    await writeFile(flag, "");
    expect(await ended).toMatchObject({ reason: "exited", exitCode: 4 });
    await expect.poll(() => launched).toEqual(["+worker", "-worker"]);
  });

  it("requires a rule under the read-only profile, and still sets the service name", async () => {
    await expect(create({ profile: "diagnostics" }).run({ kind: "run", argv: ["sh", "-c", "true"] })).rejects.toThrow("has no run");
    const rules = [testRule({ action: "allow", program: ["sh"], kind: ["run"] })];
    const end = await create({ profile: "diagnostics", rules }).run({
      kind: "run",
      argv: ["sh", "-c", "echo $OTEL_SERVICE_NAME"],
      serviceName: "job",
    });
    expect(end).toMatchObject({ stdout: "job\n", exitCode: 0 });
  });

  it("kills an attached program when its caller disconnects", async () => {
    const { runner } = create();
    const caller = new AbortController();
    const order = testOrder({ kind: "run", argv: ["sleep", "1000"] });
    const { ended } = await runner.start(order, caller.signal, noHold);
    caller.abort();
    expect(await ended).toMatchObject({ reason: "cancelled" });
    expect(left(order.commandId)).toEqual([]);
  });
});
