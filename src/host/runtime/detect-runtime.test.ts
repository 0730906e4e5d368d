import { describe, expect, it } from "vitest";
import { createHostRoot } from "../files/host-root.ts";
import { createHostTree, type HostTree, type TreeEntry } from "../host-tree.fixture.ts";
import { type DetectedRuntime, type DetectRuntimeOptions, detectRuntime } from "./detect-runtime.ts";
import { serveCri, serveDocker } from "./fake-runtime.fixture.ts";

const signal = new AbortController().signal;
const uid = "0f5a3c1e-7f0b-4c57-9a86-3a1f8e3f2b10";
const [own, app, nginx, pause] = ["a", "b", "c", "d"].map((letter) => letter.repeat(64)) as [string, string, string, string];
const hostPid = { "/proc/self/ns/pid": { link: "pid:[4026531836]" }, "/proc/self/ns/mnt": { link: "mnt:[4026533000]" } } as const;
const ownPid = { "/proc/self/ns/pid": { link: "pid:[4026532500]" }, "/proc/self/ns/mnt": { link: "mnt:[4026533000]" } } as const;
const kubelet = `/var/lib/kubelet/pods/${uid}`;

/** Mounts of a container that the kubelet started, in its own cgroup namespace. */
const podFiles = (container: string): Record<string, TreeEntry> => ({
  "/proc/self/cgroup": "0::/\n",
  "/proc/self/mountinfo": `1 0 0:9 / / rw - overlay overlay rw,lowerdir=/var/lib/containerd/io.containerd.snapshotter.v1.overlayfs/1
2 1 8:1 ${kubelet}/etc-hosts /etc/hosts rw - ext4 /dev/sda1 rw
3 1 8:1 ${kubelet}/containers/${container}/1a2b3c4d /dev/termination-log rw - ext4 /dev/sda1 rw
`,
  "/var/run/secrets/kubernetes.io/serviceaccount/namespace": "shop",
});

const process = (pid: number, name: string, cgroup: string, parent: number, mounts = ""): Record<string, TreeEntry> => ({
  [`/proc/${pid}/comm`]: `${name}\n`,
  [`/proc/${pid}/cgroup`]: `0::${cgroup}\n`,
  [`/proc/${pid}/mountinfo`]: mounts,
  [`/proc/${pid}/stat`]: `${pid} (${name}) S ${parent} ${pid} ${pid} 0 -1 4194304 1 0 0 0 1 1 0 0 20 0 1 0 ${100 + pid} 1 1 ${"0 ".repeat(28)}`,
});

async function detect(tree: HostTree, change: Partial<DetectRuntimeOptions> = {}): Promise<DetectedRuntime> {
  const os = { platform: "linux", arch: "x64", release: "6.5.0", version: "#1" };
  const override = { runtimeType: "", sidecarMode: "" };
  return await detectRuntime({ root: createHostRoot(tree.root), env: {}, os, uid: 0, override, targets: [], signal, ...change });
}

const container = (id: string, name: string, podUid = uid, state = 1) => ({
  id,
  metadata: { name },
  state,
  labels: { "io.kubernetes.pod.name": "shop-1", "io.kubernetes.pod.namespace": "shop", "io.kubernetes.pod.uid": podUid },
});

describe("detectRuntime() on a machine", () => {
  it("is native with full visibility", async () => {
    using tree = createHostTree({ "/proc/self/cgroup": "0::/system.slice/coral.service\n", "/proc/self/mountinfo": "", ...hostPid });
    const found = await detect(tree);
    expect(found).toMatchObject({ runtimeType: "native", sidecarMode: "", containerRuntime: null, isOverridden: false });
    expect(found.visibility).toEqual({
      allPids: true,
      allContainers: true,
      podScope: false,
      containers: [],
      namespace: "host",
      moreContainers: 0,
    });
  });

  it("is native on a Kubernetes node, even with a pod's environment variables", async () => {
    using tree = createHostTree({ "/proc/self/cgroup": "0::/user.slice\n", ...hostPid });
    expect((await detect(tree, { env: { KUBERNETES_SERVICE_HOST: "10.0.0.1" } })).runtimeType).toBe("native");
  });

  it("is native in WSL, which has its own pid namespace", async () => {
    using tree = createHostTree({ ...ownPid, "/proc/sys/kernel/osrelease": "5.15.90.1-microsoft-standard-WSL2\n" });
    expect(await detect(tree)).toMatchObject({ runtimeType: "native" });
  });

  it("is native in a virtual machine built from a container image", async () => {
    using tree = createHostTree({ "/.dockerenv": "", "/proc/self/cgroup": "0::/\n", "/proc/self/ns/pid": { link: "pid:[4026531836]" } });
    tree.write({ "/proc/self/ns/mnt": { link: "mnt:[4026531840]" } });
    expect((await detect(tree)).runtimeType).toBe("native");
  });

  it("does not see all processes without root if /proc hides them", async () => {
    using tree = createHostTree({ "/proc/self/mountinfo": "1 0 0:5 / /proc rw - proc proc rw,hidepid=invisible\n", ...hostPid });
    expect((await detect(tree, { uid: 1000 })).visibility.allPids).toBe(false);
    expect((await detect(tree, { uid: 0 })).visibility.allPids).toBe(true);
  });

  it.each([
    ["containerd", "1.7.0-3-gabc", "containerd", "1.7.0", "/run/containerd/containerd.sock"],
    ["cri-o", "1.28.2", "crio", "1.28.2", "/var/run/crio/crio.sock"],
    ["containerd", "v1.6.20~ds1", "containerd", "1.6.20", "/run/k3s/containerd/containerd.sock"],
  ])("reads %s version %s from its socket", async (name, version, type, short, path) => {
    using tree = createHostTree(hostPid);
    await using _cri = await serveCri(tree.root, path, { name, version });
    expect((await detect(tree)).containerRuntime).toEqual({ socketPath: path, type, version: short, api: "cri" });
  });

  it("uses Docker if containerd serves no CRI, and recognises Podman", async () => {
    using tree = createHostTree(hostPid);
    await using _cri = await serveCri(tree.root, "/run/containerd/containerd.sock", { name: "", version: "", status: 12 });
    await using _docker = await serveDocker(tree.root, "/run/docker.sock", {
      "/version": { Version: "25.0.3", Components: [{ Name: "Engine" }] },
    });
    const found = await detect(tree);
    expect(found.containerRuntime).toEqual({ socketPath: "/run/docker.sock", type: "docker", version: "25.0.3", api: "docker" });
    expect(found.problems).toEqual([expect.stringContaining("not here")]);
    using other = createHostTree(hostPid);
    await using _podman = await serveDocker(other.root, "/run/podman/podman.sock", {
      "/version": { Version: "4.3.1", Components: [{ Name: "Podman Engine" }] },
    });
    expect((await detect(other)).containerRuntime).toMatchObject({ type: "podman", version: "4.3.1" });
  });

  it("continues without a runtime that does not respond or is not one", async () => {
    using tree = createHostTree({ ...hostPid, "/run/containerd/containerd.sock": "a file" });
    await using _silent = await serveCri(tree.root, "/run/crio/crio.sock", { name: "", version: "", isSilent: true });
    const found = await detect(tree);
    expect(found.containerRuntime).toBeNull();
    expect(found.problems).toEqual([expect.stringContaining("ECONNREFUSED"), expect.stringContaining("does not respond")]);
  });
});

describe("detectRuntime() in a container", () => {
  it.each<[string, Record<string, TreeEntry>, Record<string, string>]>([
    ["Docker by its file", { "/.dockerenv": "" }, {}],
    ["Docker by its cgroup", { "/proc/self/cgroup": `1:memory:/docker/${own}\n` }, {}],
    ["Podman", { "/run/.containerenv": "" }, {}],
    ["containerd by its layers", { "/proc/self/mountinfo": "1 0 0:9 / / rw - overlay overlay rw,lowerdir=/var/lib/containerd/x\n" }, {}],
    [
      "Docker by its mounts",
      { "/proc/self/mountinfo": `1 0 8:1 /var/lib/docker/containers/${own}/hosts /etc/hosts rw - ext4 /dev/sda rw\n` },
      {},
    ],
    ["LXC", { "/run/systemd/container": "lxc\n" }, {}],
    ["systemd-nspawn", { "/run/host/container-manager": "systemd-nspawn\n" }, {}],
    ["ctr or runc, by their namespaces", { "/proc/self/cgroup": "9:memory:/hand/web\n" }, {}],
    ["any runtime, by the container variable", {}, { container: "podman" }],
  ])("is one of %s", async (_name, files, env) => {
    using tree = createHostTree({ ...ownPid, ...files });
    const found = await detect(tree, { env });
    expect(found).toMatchObject({ runtimeType: "docker", sidecarMode: "" });
    expect(found.visibility).toMatchObject({ allPids: false, allContainers: false, namespace: "container" });
    expect(found.evidence.length).toBeGreaterThan(1);
  });

  it("has the host's processes with its pid namespace, and all containers with Docker's socket", async () => {
    using tree = createHostTree({ "/.dockerenv": "", ...hostPid });
    await using _docker = await serveDocker(tree.root, "/var/run/docker.sock", { "/version": { Version: "25.0.3" } });
    expect((await detect(tree)).visibility).toMatchObject({ allPids: true, allContainers: true, namespace: "host" });
  });
});

describe("detectRuntime() in a pod", () => {
  it("is a passive sidecar without a socket and a namespace of the pod", async () => {
    using tree = createHostTree({ ...ownPid, ...podFiles("coral"), ...process(1, "coral", "/", 0) });
    const found = await detect(tree);
    expect(found).toMatchObject({ runtimeType: "k8s-sidecar", sidecarMode: "passive" });
    expect(found.visibility).toEqual({
      allPids: false,
      allContainers: false,
      podScope: true,
      containers: [],
      namespace: "pod",
      moreContainers: 0,
    });
  });

  it("is a sidecar in the pod's namespace, and finds its containers by the kubelet's mounts", async () => {
    const log = (name: string): string => `1 0 8:1 ${kubelet}/containers/${name}/12 /dev/termination-log rw - ext4 /dev/sda1 rw\n`;
    using tree = createHostTree({
      ...ownPid,
      ...podFiles("coral"),
      ...process(1, "pause", `/../${pause}`, 0),
      ...process(7, "node", `/../${app}`, 0, log("app")),
      ...process(8, "node", `/../${app}`, 7),
      ...process(20, "nginx", `/../${nginx}`, 0, log("nginx")),
      ...process(30, "coral", "/", 0, log("coral")),
    });
    const found = await detect(tree);
    expect(found).toMatchObject({ runtimeType: "k8s-sidecar", sidecarMode: "shared-ns" });
    expect(found.visibility.containers).toEqual(["app", "nginx"]);
    expect(found.evidence).toContain("process 1 is the pod's pause");
  });

  it("is a sidecar with the runtime's socket: containers of its own pod that run, without itself", async () => {
    using tree = createHostTree({ ...ownPid, ...podFiles("coral") });
    const containers = [
      container(own, "coral"),
      container(app, "app"),
      container(nginx, "nginx"),
      container(pause, "setup", uid, 2),
      container("e".repeat(64), "app", "other"),
    ];
    await using cri = await serveCri(tree.root, "/run/containerd/containerd.sock", { name: "containerd", version: "1.7.0", containers });
    const found = await detect(tree);
    expect(found).toMatchObject({ runtimeType: "k8s-sidecar", sidecarMode: "cri" });
    expect(found.visibility.containers).toEqual(["app", "nginx"]);
    expect(cri.calls).toEqual(["Version", "ListPodSandbox", "ListContainers"]);
    expect((await detect(tree, { targets: ["nginx", "gone"] })).visibility.containers).toEqual(["nginx"]);
  });

  it("uses the configured targets if the runtime stops responding", async () => {
    using tree = createHostTree({ ...ownPid, ...podFiles("coral") });
    // A version, and nothing else.
    await using _docker = await serveDocker(tree.root, "/run/docker.sock", { "/version": { Version: "25.0.3" } });
    const found = await detect(tree, { targets: ["app"] });
    expect(found.visibility.containers).toEqual(["app"]);
    expect(found.problems).toEqual([expect.stringContaining("page not found")]);
  });

  it("bounds the list of containers", async () => {
    using tree = createHostTree({ ...ownPid, ...podFiles("coral") });
    const containers = Array.from({ length: 70 }, (_, index) =>
      container(String(index).padStart(64, "0"), `c${String(index).padStart(2, "0")}`),
    );
    await using _cri = await serveCri(tree.root, "/run/crio/crio.sock", { name: "cri-o", version: "1.28.2", containers });
    const { containers: shown, moreContainers } = (await detect(tree)).visibility;
    expect([shown.length, moreContainers]).toEqual([64, 6]);
  });

  it.each<[string, Record<string, TreeEntry>]>([
    ["cgroup v1", { "/proc/self/cgroup": `5:memory:/kubepods/burstable/pod${uid}/${own}\n` }],
    [
      "systemd's cgroups",
      { "/proc/self/cgroup": `0::/kubepods.slice/kubepods-pod${uid.replaceAll("-", "_")}.slice/cri-containerd-${own}.scope\n` },
    ],
  ])("finds itself by %s", async (_name, files) => {
    using tree = createHostTree({ ...ownPid, ...files });
    const containers = [container(own, "coral"), container(app, "app"), container(nginx, "x", "9".repeat(32))];
    await using _cri = await serveCri(tree.root, "/run/containerd/containerd.sock", { name: "containerd", version: "1.7.0", containers });
    expect((await detect(tree)).visibility.containers).toEqual(["app"]);
  });
});

describe("detectRuntime() distinguishes a DaemonSet from a sidecar", () => {
  const podOwner = (kind: string) => async (pod: { name: string; namespace: string }) =>
    pod.name === "coral-x2x4z" && pod.namespace === "shop" ? { kind, name: "coral" } : null;
  // Both names look like a DaemonSet's.
  const env = { POD_NAME: "coral-x2x4z", KUBERNETES_SERVICE_HOST: "10.0.0.1" };

  it.each([
    ["DaemonSet", ownPid, "k8s-daemonset"],
    ["ReplicaSet", ownPid, "k8s-sidecar"],
    ["StatefulSet", ownPid, "k8s-sidecar"],
    ["", ownPid, "k8s-sidecar"],
    ["DaemonSet", hostPid, "k8s-daemonset"],
    ["ReplicaSet", hostPid, "k8s-sidecar"],
  ])("by its owner %j", async (kind, namespace, type) => {
    using tree = createHostTree({ ...namespace, ...podFiles("coral") });
    const found = await detect(tree, { env, podOwner: podOwner(kind) });
    expect(found.runtimeType).toBe(type);
    expect(found.evidence.join()).toContain(kind === "" ? "no owner" : `owner ${kind}/coral`);
  });

  it("by the label of its controller: downward API, or the runtime", async () => {
    using tree = createHostTree({ ...ownPid, ...podFiles("coral"), "/etc/podinfo/labels": 'app="coral"\npod-template-generation="1"\n' });
    expect((await detect(tree, { env })).runtimeType).toBe("k8s-daemonset");
    using other = createHostTree({ ...ownPid, ...podFiles("coral") });
    const pods = [{ id: "p", metadata: { name: "coral", uid, namespace: "shop" }, labels: { "pod-template-generation": "1" } }];
    await using _cri = await serveCri(other.root, "/run/containerd/containerd.sock", { name: "containerd", version: "1.7.0", pods });
    const found = await detect(other, { env });
    expect(found).toMatchObject({ runtimeType: "k8s-daemonset", sidecarMode: "" });
    expect(found.visibility).toMatchObject({ allContainers: true, podScope: false, namespace: "node" });
  });

  it("by the host's pid namespace as a last resort", async () => {
    using tree = createHostTree({ ...hostPid, ...podFiles("coral") });
    expect(await detect(tree, { env })).toMatchObject({ runtimeType: "k8s-daemonset", visibility: { allPids: true, namespace: "node" } });
    using other = createHostTree({ ...ownPid, ...podFiles("coral") });
    expect((await detect(other, { env })).runtimeType).toBe("k8s-sidecar");
  });
});

describe("detectRuntime() with an override", () => {
  it("applies the configured override", async () => {
    using tree = createHostTree(hostPid);
    const found = await detect(tree, { override: { runtimeType: "k8s-sidecar", sidecarMode: "passive" } });
    expect(found).toMatchObject({ runtimeType: "k8s-sidecar", sidecarMode: "passive", isOverridden: true, visibility: { podScope: true } });
    expect((await detect(tree, { override: { runtimeType: "docker", sidecarMode: "" } })).runtimeType).toBe("docker");
  });
});

describe("readPlatform()", () => {
  it.each([
    [
      { "/etc/os-release": 'NAME="Ubuntu"\nVERSION_ID="22.04"\n' },
      "linux",
      "x64",
      { os: "linux", arch: "amd64", osVersion: "Ubuntu 22.04", kernel: "6.5.0" },
    ],
    [
      { "/etc/os-release": 'NAME="Debian GNU/Linux"\nVERSION_ID="12"\n' },
      "linux",
      "arm64",
      { os: "linux", arch: "arm64", osVersion: "Debian 12", kernel: "6.5.0" },
    ],
    [{ "/usr/lib/os-release": "NAME=Arch\n" }, "linux", "x64", { os: "linux", arch: "amd64", osVersion: "Arch", kernel: "6.5.0" }],
    [{}, "linux", "riscv64", { os: "linux", arch: "riscv64", osVersion: "", kernel: "6.5.0" }],
  ])("reads Linux from %j", async (files, platform, arch, expected) => {
    using tree = createHostTree(files);
    expect((await detect(tree, { os: { platform, arch, release: "6.5.0", version: "" } })).platform).toEqual(expected);
  });

  it("reads macOS from its property list, or from its kernel", async () => {
    const os = { platform: "darwin", arch: "arm64", release: "23.3.0", version: "Darwin Kernel" };
    using tree = createHostTree({
      "/System/Library/CoreServices/SystemVersion.plist": "<dict><key>ProductVersion</key>\n\t<string>14.2</string></dict>",
    });
    expect((await detect(tree, { os })).platform).toEqual({
      os: "darwin",
      arch: "arm64",
      osVersion: "macOS 14.2",
      kernel: "Darwin 23.3.0",
    });
    using bare = createHostTree({});
    expect((await detect(bare, { os })).platform.osVersion).toBe("macOS 14");
    expect((await detect(bare, { os: { ...os, release: "25.0.0" } })).platform.osVersion).toBe("macOS 26");
  });

  it("reads Windows", async () => {
    using tree = createHostTree({});
    const os = { platform: "win32", arch: "x64", release: "10.0.22631", version: "Windows 11 Pro" };
    expect((await detect(tree, { os })).platform).toEqual({
      os: "windows",
      arch: "amd64",
      osVersion: "Windows 11 Pro",
      kernel: "NT 10.0.22631",
    });
  });
});
