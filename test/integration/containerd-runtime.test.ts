/** Pods of a real containerd, listed and entered through its CRI. */

import { mkdirSync, readFileSync, symlinkSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { build } from "esbuild";
import { afterAll, beforeAll, beforeEach, describe, expect, it } from "vitest";
import { createHostRoot } from "../../src/host/files/host-root.ts";
import { createHostTree, type HostTree } from "../../src/host/host-tree.fixture.ts";
import {
  type ContainerDirectory,
  type ContainerInfo,
  createContainerDirectory,
  type DetectedRuntime,
  detectRuntime,
} from "../../src/host/index.ts";
import { containerdSkipReason, type PodOptions, TestContainerd, type TestPod } from "../support/containerd.ts";

const skipReason = containerdSkipReason();
const signal = new AbortController().signal;
const uid = "0f5a3c1e-7f0b-4c57-9a86-3a1f8e3f2b10";
const otherUid = "1f5a3c1e-7f0b-4c57-9a86-3a1f8e3f2b11";
const loop = ["/bin/sh", "-c", "while :; do sleep 3600 & wait $!; done"];
let runtime: TestContainerd;
let shop: TestPod;
let ids: { app: string; nginx: string; other: string };
const env = (): Record<string, string> => ({ CONTAINER_RUNTIME_ENDPOINT: `unix://${runtime.socketPath}` });

describe("containerd", () => {
  beforeAll(async () => {
    if (skipReason !== undefined) return;
    runtime = await TestContainerd.start();
    shop = await runtime.runPod({ name: "shop-1", uid, labels: { app: "shop" } });
    const other = await runtime.runPod({ name: "other-1", uid: otherUid });
    ids = {
      app: await runtime.runContainer(shop, "app", { command: loop }),
      nginx: await runtime.runContainer(shop, "nginx", { command: loop }),
      other: await runtime.runContainer(other, "app", { command: loop }),
    };
  });

  afterAll(async () => {
    await runtime?.[Symbol.asyncDispose]();
  });

  beforeEach((context) => {
    if (skipReason !== undefined) context.skip(skipReason);
  });

  const directory = (): ContainerDirectory => createContainerDirectory({ env: env(), podScope: () => false });

  it("is detected with its version and all of its containers", async () => {
    const found = await detectRuntime({ env: env(), override: { runtimeType: "", sidecarMode: "" }, targets: [], signal });
    expect(found.containerRuntime).toMatchObject({ type: "containerd", socketPath: runtime.socketPath, api: "cri" });
    expect(found.containerRuntime?.version).toMatch(/^\d+\.\d+\.\d+$/);
    expect(found.runtimeType).toBe("native");
    expect(found.visibility).toMatchObject({ allContainers: true, namespace: "host" });
    expect((await directory().list(signal)).map(({ name, pod, isRunning }) => [pod?.name, name, isRunning])).toEqual(
      expect.arrayContaining([
        ["shop-1", "app", true],
        ["shop-1", "nginx", true],
        ["other-1", "app", true],
      ]),
    );
  });

  it("returns the init process of a container, not that of a container with the same name in another pod", async () => {
    const containers = directory();
    await expect(containers.find("app", signal)).rejects.toThrow(/shop-1\/app.*other-1\/app|other-1\/app.*shop-1\/app/);
    for (const [name, id] of [
      ["shop-1/app", ids.app],
      ["other-1/app", ids.other],
      ["nginx", ids.nginx],
      [ids.nginx.slice(0, 12), ids.nginx],
    ] as const) {
      const container = await containers.find(name, signal);
      expect(container.id).toBe(id);
      const pid = await containers.pidOf(container, signal);
      expect(readFileSync(`/proc/${pid}/cgroup`, "utf8")).toContain(id);
      expect(readFileSync(`/proc/${pid}/status`, "utf8")).toMatch(/^NSpid:\t\d+(\t\d+)*\t1$/m);
    }
  });

  it("runs programs with its own exec: stdout, stderr, exit code, terminal, input", async () => {
    const containers = directory();
    const app = await containers.find("shop-1/app", signal);
    const run = async (argv: string[], terminal?: { columns: number; rows: number }, input?: string) => {
      await using program = await containers.exec(app, { argv, hasInput: input !== undefined, signal, ...(terminal ? { terminal } : {}) });
      if (input !== undefined) program.write(Buffer.from(input));
      const text = { stdout: "", stderr: "" };
      for await (const { stream, data } of program.output()) text[stream] += Buffer.from(data).toString("utf8");
      return { ...text, code: await program.exitCode };
    };
    expect(await run(["/bin/sh", "-c", "echo out; echo err >&2; exit 3"])).toEqual({ stdout: "out\n", stderr: "err\n", code: 3 });
    expect(await run(["/bin/true"])).toEqual({ stdout: "", stderr: "", code: 0 });
    expect((await run(["/bin/sh", "-c", "stty size; exit 7"], { columns: 91, rows: 33 })).code).toBe(7);
    expect(await run(["/bin/sh", "-c", "read x; echo got $x"], undefined, "hello\n")).toMatchObject({ stdout: "got hello\n", code: 0 });
    const large = await run(["/bin/sh", "-c", "yes 0123456789abcdef | head -c 3000000"]);
    expect(large.stdout.length).toBe(3_000_000);
    await expect(run(["/no/such/program"])).rejects.toThrow(/no such file/);
  });

  describe("with an agent in its pod", () => {
    let bundle: string;

    beforeAll(async () => {
      if (skipReason !== undefined) return;
      bundle = join(runtime.directory, "probe");
      await build({
        entryPoints: [fileURLToPath(new URL("../support/detect-in-pod.ts", import.meta.url))],
        outfile: join(bundle, "detect.mjs"),
        bundle: true,
        platform: "node",
        format: "esm",
        target: "node20",
        logLevel: "error",
      });
    });

    /** Starts a pod with an application and an agent, as a kubelet would, and runs the agent's detection in it. */
    async function detectIn(options: Omit<PodOptions, "name" | "uid">, podUid: string, withSocket: boolean): Promise<DetectedRuntime> {
      const pod = await runtime.runPod({ ...options, name: `pod-${podUid.slice(-4)}`, uid: podUid });
      await runtime.runContainer(pod, "app", { command: loop, mounts: kubeletMounts(podUid, "app") });
      const mounts = [
        ...["/usr", "/lib", "/lib64"].map((path) => ({ from: path, to: path })),
        { from: bundle, to: "/probe" },
        ...kubeletMounts(podUid, "agent"),
        ...(withSocket ? [{ from: runtime.socketPath, to: "/run/containerd/containerd.sock" }] : []),
      ];
      const id = await runtime.runContainer(pod, "agent", { command: loop, mounts, env: { KUBERNETES_SERVICE_HOST: "10.0.0.1" } });
      const containers = directory();
      const agent = await containers.find(id, signal);
      await using program = await containers.exec(agent, { argv: ["/usr/bin/node", "/probe/detect.mjs"], hasInput: false, signal });
      const text = { stdout: "", stderr: "" };
      for await (const { stream, data } of program.output()) text[stream] += Buffer.from(data).toString("utf8");
      expect([await program.exitCode, text.stderr]).toEqual([0, ""]);
      return JSON.parse(text.stdout) as DetectedRuntime;
    }

    function kubeletMounts(podUid: string, container: string): { from: string; to: string }[] {
      const pods = join(runtime.directory, "kubelet/pods", podUid);
      mkdirSync(join(pods, "containers", container), { recursive: true });
      writeFileSync(join(pods, "etc-hosts"), "127.0.0.1 localhost\n");
      writeFileSync(join(pods, "containers", container, "1a2b3c4d"), "");
      return [
        { from: join(pods, "etc-hosts"), to: "/etc/hosts" },
        { from: join(pods, "containers", container, "1a2b3c4d"), to: "/dev/termination-log" },
      ];
    }

    it("is a sidecar in CRI mode with the runtime's socket", async () => {
      const found = await detectIn({}, "2f5a3c1e-7f0b-4c57-9a86-3a1f8e3f0001", true);
      expect(found).toMatchObject({ runtimeType: "k8s-sidecar", sidecarMode: "cri", containerRuntime: { type: "containerd" } });
      expect(found.visibility).toMatchObject({ podScope: true, containers: ["app"], namespace: "pod", allPids: false });
    });

    it("is a sidecar in the pod's namespace with shareProcessNamespace", async () => {
      const found = await detectIn({ pid: "pod" }, "2f5a3c1e-7f0b-4c57-9a86-3a1f8e3f0002", false);
      expect(found).toMatchObject({ runtimeType: "k8s-sidecar", sidecarMode: "shared-ns", containerRuntime: null });
      expect(found.visibility.containers).toEqual(["app"]);
    });

    it("is a passive sidecar with neither", async () => {
      const found = await detectIn({}, "2f5a3c1e-7f0b-4c57-9a86-3a1f8e3f0003", false);
      expect(found).toMatchObject({ runtimeType: "k8s-sidecar", sidecarMode: "passive", visibility: { containers: [] } });
    });

    it("is a DaemonSet's by its label, and by the host's pid namespace", async () => {
      const labelled = await detectIn({ labels: { "pod-template-generation": "1" } }, "2f5a3c1e-7f0b-4c57-9a86-3a1f8e3f0004", true);
      expect(labelled).toMatchObject({
        runtimeType: "k8s-daemonset",
        sidecarMode: "",
        visibility: { allContainers: true, namespace: "node" },
      });
      const host = await detectIn({ pid: "node" }, "2f5a3c1e-7f0b-4c57-9a86-3a1f8e3f0005", false);
      expect(host).toMatchObject({ runtimeType: "k8s-daemonset", visibility: { allPids: true, namespace: "node" } });
    });
  });

  describe("of a sidecar", () => {
    let tree: HostTree;
    const sidecar = (): ReturnType<typeof createHostRoot> => createHostRoot(tree.root);

    beforeEach(() => {
      if (skipReason !== undefined) return;
      tree = createHostTree({
        "/proc/self/cgroup": `0::/kubepods/burstable/pod${uid}/${ids.nginx}\n`,
        "/proc/self/mountinfo": "1 1 0:1 / / rw - overlay overlay rw\n",
        "/proc/self/ns/pid": { link: "pid:[4026532999]" },
        "/etc/os-release": 'NAME="Alpine Linux"\nVERSION_ID=3.19.1\n',
      });
      const place = join(tree.root, "/run/containerd/containerd.sock");
      mkdirSync(dirname(place), { recursive: true });
      symlinkSync(runtime.socketPath, place);
    });

    it("shows its own pod only, and not the agent's container", async () => {
      using _kept = tree;
      const options = { root: sidecar(), env: {}, override: { runtimeType: "", sidecarMode: "" }, signal };
      const found = await detectRuntime({ ...options, targets: [] });
      expect(found).toMatchObject({ runtimeType: "k8s-sidecar", sidecarMode: "cri" });
      expect(found.visibility).toEqual({
        allPids: false,
        allContainers: false,
        podScope: true,
        containers: ["app"],
        namespace: "pod",
        moreContainers: 0,
      });
      const containers = createContainerDirectory({ root: sidecar(), env: {}, podScope: () => true });
      const list: ContainerInfo[] = await containers.list(signal);
      expect(list.map(({ name, isOwn }) => [name, isOwn])).toEqual([
        ["app", false],
        ["nginx", true],
      ]);
      // Another PID namespace: the host's pid is meaningless here.
      expect(await containers.pidOf(await containers.find("app", signal), signal)).toBeNull();
    });

    it("follows containers that come and go", async () => {
      using _kept = tree;
      const options = { root: sidecar(), env: {}, override: { runtimeType: "", sidecarMode: "" }, targets: [], signal };
      const id = await runtime.runContainer(shop, "late", { command: loop });
      expect((await detectRuntime(options)).visibility.containers).toEqual(["app", "late"]);
      await runtime.stopContainer(id);
      expect((await detectRuntime(options)).visibility.containers).toEqual(["app"]);
    });
  });
});
