/** Commands in containers of a real containerd: by entering their namespaces, or through the runtime. */

import { readFileSync } from "node:fs";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, beforeEach, describe, expect, it } from "vitest";
import { createTestRunner, type TestRunner } from "../../src/exec/command-runner.fixture.ts";
import type { ExecSettings } from "../../src/exec/index.ts";
import { type ContainerDirectory, createContainerDirectory, processesWithVariable } from "../../src/host/index.ts";
import { containerdSkipReason, TestContainerd, type TestPod } from "../support/containerd.ts";
import { uniqueName } from "../support/unique-name.ts";

const skipReason = containerdSkipReason();
const signal = new AbortController().signal;
/** The runtime sets the size after the program has started; stty prints 0 0 before. */
const untilSized = 'until [ -n "$(stty size 2>/dev/null)" ]; do sleep 0.1; done; stty size';
const loop = ["/bin/sh", "-c", "while :; do sleep 3600 & wait $!; done"];
let runtime: TestContainerd;
/** The host may have other containers, some of them with common names. */
const app = uniqueName("app");
const web = uniqueName("web");
let pod: TestPod;
let directory: string;
let appPid: number;
const made: TestRunner[] = [];

describe("commands in containers", () => {
  beforeAll(async () => {
    if (skipReason !== undefined) return;
    directory = await mkdtemp(join(tmpdir(), "coral-exec-cri-"));
    runtime = await TestContainerd.start();
    pod = await runtime.runPod({ name: "shop-1", uid: "2f5a3c1e-7f0b-4c57-9a86-3a1f8e3f2b12" });
    await runtime.runContainer(pod, app, { command: ["/bin/sh", "-c", `echo app > /tmp/who; ${loop[2]}`] });
    await runtime.runContainer(pod, web, { command: ["/bin/sh", "-c", `echo nginx > /tmp/who; ${loop[2]}`] });
    const containers = seeing();
    appPid = (await containers.pidOf(await containers.find(app, signal), signal)) ?? 0;
  });

  afterAll(async () => {
    for (const runner of made) await runner[Symbol.asyncDispose]();
    await runtime?.[Symbol.asyncDispose]();
    if (directory !== undefined) await rm(directory, { recursive: true });
  });

  beforeEach((context) => {
    if (skipReason !== undefined) context.skip(skipReason);
  });

  const seeing = (): ContainerDirectory =>
    createContainerDirectory({ env: { CONTAINER_RUNTIME_ENDPOINT: `unix://${runtime.socketPath}` }, podScope: () => false });
  /** Like a sidecar: it has the runtime's socket, but cannot see processes of other containers. */
  const blind = (): ContainerDirectory => ({ ...seeing(), pidOf: async () => null });
  const inside = (container: string) => ({ kind: "container" as const, service: "", container, pid: 0 });
  function create(settings: Partial<ExecSettings>, containers: ContainerDirectory, pids: number[] = []): TestRunner {
    const runner = createTestRunner(settings, directory, { containers, pidsOf: async () => pids });
    made.push(runner);
    return runner;
  }

  it("run in the named container, as user nobody, without the agent's privileges", async () => {
    const { run, audit } = create({}, seeing());
    expect((await run({ argv: ["cat", "/tmp/who"], target: inside(app) })).stdout).toBe("app\n");
    expect((await run({ argv: ["cat", "/tmp/who"], target: inside(`shop-1/${web}`) })).stdout).toBe("nginx\n");
    const { stdout } = await run({ argv: ["cat", "/proc/self/status"], target: inside(app) });
    expect(stdout).toMatch(/^Uid:\s+65534/m);
    expect(stdout).toMatch(/^CapEff:\s+0+$/m);
    expect(stdout).toMatch(/^NoNewPrivs:\s+1$/m);
    expect(audit[0]?.where).toMatch(new RegExp(`^container [0-9a-f]{12} \\(${app}\\), pid \\d+$`));
    expect(audit[0]).toMatchObject({ user: "nobody", target: `container ${app}` });
    await expect(run({ argv: ["true"], target: inside("no-such") })).rejects.toThrow("no-such");
  });

  it("can select a container by its service or process", async () => {
    const { run } = create({}, seeing(), [appPid]);
    const target = { kind: "service" as const, service: "shop", container: "", pid: 0 };
    expect((await run({ argv: ["cat", "/tmp/who"], target })).stdout).toBe("app\n");
    expect((await run({ argv: ["cat", "/tmp/who"], target: { ...target, container: app } })).stdout).toBe("app\n");
    await expect(run({ argv: ["true"], target: { ...target, container: web } })).rejects.toThrow("no process of it runs in container");
    await expect(run({ argv: ["true"], target: { ...target, pid: 1 } })).rejects.toThrow("process 1 does not belong to it");
    const nginx = await seeing().pidOf(await seeing().find(web, signal), signal);
    const both = create({}, seeing(), [nginx ?? 0, appPid]);
    await expect(both.run({ argv: ["true"], target })).rejects.toThrow("it runs in 2 places on this host");
    expect((await both.run({ argv: ["cat", "/tmp/who"], target: { ...target, pid: nginx ?? 0 } })).stdout).toBe("nginx\n");
  });

  it("of the read-only profile may be busybox applets that the profile lists", async () => {
    for (const containers of [seeing(), blind()]) {
      const { run } = create({ profile: "diagnostics" }, containers);
      expect((await run({ text: "ps | head -n 1", target: inside(app) })).stdout).toContain("PID");
      expect(await run({ text: "true", target: inside(app) })).toMatchObject({ exitCode: 0 });
      for (const text of [
        "sh -c id",
        "busybox sh -c id",
        "busybox id",
        "vi",
        "wget http://127.0.0.1/",
        "env id",
        "awk 1",
        "/bin/busybox",
        "/tmp/ps",
        "cat /tmp/who",
        "find /tmp -exec id ';'",
      ])
        await expect(run({ text, target: inside(app) }), text).rejects.toThrow(/^Cannot run/);
    }
  });

  it("run through the runtime if the container cannot be entered", async () => {
    const { run, audit } = create({}, blind());
    expect(await run({ argv: ["sh", "-c", "echo out; echo err >&2; exit 3"], target: inside(app) })).toMatchObject({
      stdout: "out\n",
      stderr: "err\n",
      exitCode: 3,
    });
    expect((await run({ text: "cat /tmp/who | tr a-z A-Z", target: inside(app) })).stdout).toBe("APP\n");
    expect((await run({ argv: ["cat"], target: inside(app) }, "typed in")).stdout).toBe("typed in");
    const terminal = { columns: 91, rows: 33, type: "xterm" };
    expect((await run({ kind: "shell", argv: ["/bin/sh", "-c", untilSized], target: inside(app), terminal })).stdout).toContain("33 91");
    expect(audit[0]).toMatchObject({ user: "of the container" });
    await expect(run({ argv: ["env"], target: inside(app), environment: { A: "b" } })).rejects.toThrow("runtime starts the program");
  });

  it("run through the runtime as the container's own user, never as the agent's root", async () => {
    const { run } = create({ runAs: "target" }, seeing());
    const { stdout } = await run({ argv: ["cat", "/proc/self/status"], target: inside(app) });
    expect(stdout).toMatch(/^Uid:\s+0/m);
    const own = readFileSync("/proc/self/status", "utf8");
    expect(/^CapBnd:\s+(\w+)$/m.exec(stdout)?.[1]).not.toBe(/^CapBnd:\s+(\w+)$/m.exec(own)?.[1]);
    await expect(run({ argv: ["true"], target: inside(app), workingDirectory: "/tmp" })).rejects.toThrow("runtime starts the program");
  });

  it("see the container's files when selected by service, and run as the container's root through the runtime", async () => {
    const target = { kind: "service" as const, service: "shop", container: "", pid: 0 };
    const entered = create({}, seeing(), [appPid]);
    expect((await entered.run({ argv: ["cat", "who"], target, workingDirectory: "/tmp" })).stdout).toBe("app\n");
    await expect(entered.run({ argv: [process.execPath], target })).rejects.toThrow("there is no such program");
    const { run, audit } = create({ runAs: "target" }, seeing(), [appPid]);
    expect((await run({ argv: ["cat", "/tmp/who"], target })).stdout).toBe("app\n");
    expect((await run({ argv: ["cat", "/proc/self/status"], target })).stdout).toMatch(/^Uid:\s+0/m);
    expect(audit.at(-1)).toMatchObject({ user: "of the container", target: "service shop" });
  });

  it("leave no process behind", async () => {
    const { run } = create({ timeoutMs: 500 }, seeing());
    const end = await run({
      argv: ["sh", "-c", "trap '' TERM; sleep 999 & (sleep 998 &) ; sleep 1000; sleep 1001"],
      target: inside(app),
    });
    expect(end).toMatchObject({ reason: "timeout", exitCode: 124 });
    expect(processesWithVariable(`CORAL_COMMAND_ID=${end.commandId}`)).toEqual([]);
  });

  it("are refused in a stopped container", async () => {
    const id = await runtime.runContainer(pod, "late", { command: loop });
    await runtime.stopContainer(id);
    const { run } = create({}, seeing());
    await expect(run({ argv: ["true"], target: inside(id) })).rejects.toThrow();
  });
});
