/** A real agent as a sidecar in a real pod: its reported runtime context, and commands in the neighbouring container. */

import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { afterAll, beforeAll, beforeEach, describe, expect, it } from "vitest";
import type { AgentList, RuntimeContextList } from "../../src/tools/index.ts";
import { containerdSkipReason, TestContainerd } from "../support/containerd.ts";
import { type ColonyDaemon, startColony } from "../support/daemon.ts";
import { coralJson, runCoral } from "../support/run-coral.ts";
import type { ProgramRun } from "../support/run-program.ts";
import { waitFor } from "../support/wait-for.ts";

const skipReason = containerdSkipReason();
const checkout = fileURLToPath(new URL("../..", import.meta.url));
const loop = ["/bin/sh", "-c", "echo neighbour > /tmp/who; while :; do sleep 3600 & wait $!; done"];

let directory: string;
let runtime: TestContainerd;
let colony: ColonyDaemon;
const agents = new Map<string, string>();

/** Starts a pod with an application and an agent; returns the agent's id. */
async function startPod(name: string, uid: string, options: { pid?: "pod"; withSocket: boolean; mayEnter?: boolean }): Promise<void> {
  const home = join(directory, name);
  mkdirSync(join(home, "agent"), { recursive: true, mode: 0o700 });
  writeFileSync(
    join(home, "agent/agent.yaml"),
    `labels:\n  app: ${name}\nexec:\n  profile: full\ntraffic:\n  enabled: false\notlp:\n  enabled: false\n`,
  );
  const { token } = await coralJson<{ token: string }>(["colony", "token", "create"], { home: colony.home });
  const pod = await runtime.runPod({ name, uid, ...(options.pid ? { pid: options.pid } : {}) });
  await runtime.runContainer(pod, "app", { command: loop, mounts: kubeletMounts(uid, "app") });
  await runtime.runContainer(pod, "agent", {
    command: ["/usr/bin/node", join(checkout, "bin/coral"), "agent", "start", "--port", "0"],
    mounts: [
      ...["/usr", "/lib", "/lib64", checkout].map((path) => ({ from: path, to: path })),
      { from: home, to: "/coral", isWritable: true },
      ...kubeletMounts(uid, "agent"),
      ...(options.withSocket ? [{ from: runtime.socketPath, to: "/run/containerd/containerd.sock" }] : []),
    ],
    capabilities: options.mayEnter ? ["SYS_ADMIN", "SYS_CHROOT", "SYS_PTRACE"] : [],
    env: { CORAL_HOME: "/coral", CORAL_JOIN_TOKEN: token, HOSTNAME: name, PATH: "/usr/bin:/bin", POD_NAMESPACE: "shop" },
  });
  const found = await waitFor(`the agent of ${name}`, async () => {
    const { agents: all } = await colony.tool<AgentList>("coral_list_agents", {});
    return all.find(({ component, connected }) => component === name && connected);
  });
  agents.set(name, found.agentId);
}

function kubeletMounts(uid: string, container: string): { from: string; to: string }[] {
  const pods = join(runtime.directory, "kubelet/pods", uid);
  mkdirSync(join(pods, "containers", container), { recursive: true });
  writeFileSync(join(pods, "etc-hosts"), "127.0.0.1 localhost\n");
  writeFileSync(join(pods, "containers", container, "1a2b3c4d"), "");
  return [
    { from: join(pods, "etc-hosts"), to: "/etc/hosts" },
    { from: join(pods, "containers", container, "1a2b3c4d"), to: "/dev/termination-log" },
  ];
}

const coral = (...args: string[]): Promise<ProgramRun> => runCoral(args, { home: colony.home });

describe("an agent in a pod", () => {
  beforeAll(async () => {
    if (skipReason !== undefined) return;
    directory = mkdtempSync(join(tmpdir(), "coral-pods-"));
    const home = join(directory, "colony");
    mkdirSync(home, { mode: 0o700 });
    colony = await startColony({ home });
    runtime = await TestContainerd.start();
    await startPod("with-cri", "3f5a3c1e-7f0b-4c57-9a86-3a1f8e3f0001", { withSocket: true });
    await startPod("shared", "3f5a3c1e-7f0b-4c57-9a86-3a1f8e3f0002", { pid: "pod", withSocket: false, mayEnter: true });
    await startPod("confined", "3f5a3c1e-7f0b-4c57-9a86-3a1f8e3f0004", { pid: "pod", withSocket: false });
    await startPod("alone", "3f5a3c1e-7f0b-4c57-9a86-3a1f8e3f0003", { withSocket: false });
  });

  afterAll(async () => {
    await runtime?.[Symbol.asyncDispose]();
    await colony?.[Symbol.asyncDispose]();
    if (directory !== undefined) rmSync(directory, { recursive: true, force: true });
  });

  beforeEach((context) => {
    if (skipReason !== undefined) context.skip(skipReason);
  });

  it.each([
    ["with-cri", "CRI", ["app"]],
    ["shared", "Shared NS", ["app"]],
    ["alone", "Passive", []],
  ])("reports its runtime context: %s", async (name, mode, containers) => {
    const { agents: found } = await colony.tool<RuntimeContextList>("coral_get_runtime_context", { agent: agents.get(name) });
    expect(found).toMatchObject([{ source: "agent", problems: [], runtime: { runtimeType: "k8s-sidecar", visibility: { containers } } }]);
    const { agents: listed } = await colony.tool<AgentList>("coral_list_agents", { match: agents.get(name) });
    expect(listed).toMatchObject([{ mode }]);
  });

  it("runs commands in its neighbour through the container runtime", async () => {
    const ran = await coral("exec", "--agent", agents.get("with-cri") ?? "", "-c", "app", "--", "cat", "/tmp/who");
    expect(ran).toMatchObject({ code: 0, stdout: "neighbour\n" });
    const failed = await coral("exec", "--agent", agents.get("with-cri") ?? "", "-c", "app", "--", "false");
    expect(failed.code).toBe(1);
  });

  it("runs commands in its neighbour through the pod's PID namespace", async () => {
    const ran = await coral("exec", "--agent", agents.get("shared") ?? "", "-c", "app", "--", "cat", "/tmp/who");
    expect(ran).toMatchObject({ code: 0, stdout: "neighbour\n" });
  });

  it("reports the missing capability if it cannot enter the pod's namespace", async () => {
    const ran = await coral("exec", "--agent", agents.get("confined") ?? "", "-c", "app", "--", "cat", "/tmp/who");
    expect(ran.code).toBe(2);
    expect(ran.stderr).toContain("lacks permission to enter the namespaces of other containers");
  });

  it("refuses with reason and fix in passive mode", async () => {
    const ran = await coral("exec", "--agent", agents.get("alone") ?? "", "-c", "app", "--", "cat", "/tmp/who");
    expect(ran.code).toBe(2);
    expect(ran.stderr).toContain("passive mode - no CRI socket, no shared namespace");
    expect(ran.stderr).toMatch(/CRI socket.*shareProcessNamespace/s);
  });
});
