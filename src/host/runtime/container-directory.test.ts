import { describe, expect, it } from "vitest";
import { createHostRoot } from "../files/host-root.ts";
import { createHostTree, type TreeEntry } from "../host-tree.fixture.ts";
import { createContainerDirectory } from "./container-directory.ts";
import { processIn } from "./cri-client.ts";
import { serveCri, serveDocker } from "./fake-runtime.fixture.ts";

const signal = new AbortController().signal;
const [web, db, old] = ["1", "2", "3"].map((digit) => digit.repeat(64)) as [string, string, string];
const hostPid = { "/proc/self/ns/pid": { link: "pid:[4026531836]" } } as const;

const processFiles = (pid: number, cgroup: string, parent = 1): Record<string, TreeEntry> => ({
  [`/proc/${pid}/cgroup`]: `0::${cgroup}\n`,
  [`/proc/${pid}/stat`]: `${pid} (x) S ${parent} ${pid} ${pid} 0 -1 4194304 1 0 0 0 1 1 0 0 20 0 1 0 ${pid} 1 1 ${"0 ".repeat(28)}`,
});

const dockerRoutes = {
  "/version": { Version: "25.0.3" },
  "/containers/json?all=1": [
    { Id: web, Names: ["/shop-web-1"], Image: "web:1", State: "running", Labels: { "com.docker.compose.service": "web" } },
    { Id: db, Names: ["/shop-db-1"], Image: "db:1", State: "running", Labels: {} },
    { Id: old, Names: ["/shop-old-1"], Image: "web:0", State: "exited", Labels: { "com.docker.compose.service": "web" } },
  ],
  [`/containers/${web}/json`]: { State: { Pid: 42 } },
  [`/containers/${db}/json`]: { State: { Pid: 43 } },
};

describe("createContainerDirectory()", () => {
  it("finds Docker's containers by name, service and id, and their first processes", async () => {
    using tree = createHostTree({ ...hostPid, ...processFiles(42, `/docker/${web}`), ...processFiles(43, "/docker/somebody-else") });
    await using _docker = await serveDocker(tree.root, "/run/docker.sock", dockerRoutes);
    const directory = createContainerDirectory({ root: createHostRoot(tree.root), env: {}, podScope: () => false });
    expect((await directory.list(signal)).map(({ name, isRunning, runtime }) => [name, isRunning, runtime])).toEqual([
      ["shop-db-1", true, "docker"],
      ["shop-web-1", true, "docker"],
      ["shop-old-1", false, "docker"],
    ]);
    for (const name of ["shop-web-1", "web", web, web.slice(0, 8)]) expect((await directory.find(name, signal)).id).toBe(web);
    expect(await directory.pidOf(await directory.find("web", signal), signal)).toBe(42);
    // Another process has the pid by now.
    expect(await directory.pidOf(await directory.find("shop-db-1", signal), signal)).toBeNull();
    await expect(directory.find("nothing", signal)).rejects.toMatchObject({
      code: "not-found",
      message: expect.stringContaining("shop-db-1, shop-web-1"),
    });
    await expect(directory.find(web.slice(0, 7), signal)).rejects.toMatchObject({ code: "not-found" });
  });

  it("finds manually created containers besides those of the runtime", async () => {
    const own = { "/proc/self/ns/mnt": { link: "mnt:[1]" } } as const;
    const named = (pid: number, cgroup: string, inside = 1, mnt = pid): Record<string, TreeEntry> => ({
      ...processFiles(pid, cgroup),
      [`/proc/${pid}/status`]: `Name:\tx\nNSpid:\t${pid}\t${inside}\nNSpgid:\t1\n`,
      [`/proc/${pid}/ns/mnt`]: { link: `mnt:[${mnt}]` },
      [`/proc/${pid}/ns/pid`]: { link: `pid:[${pid}]` },
    });
    using tree = createHostTree({
      ...hostPid,
      ...own,
      ...processFiles(42, `/docker/${web}`),
      ...named(50, "/hand/c-deb"),
      ...named(51, "/hand/c-deb", 2),
      ...named(52, "/other/c-deb"),
      ...named(53, "/user.slice/runc-tools.scope"),
      // A unit with its own namespaces, a sandbox in its parent's group, and a process with only a pid namespace.
      ...named(60, "/system.slice/app.service"),
      ...named(61, "/user.slice/session-3.scope"),
      ...named(62, "/x/half", 1, 1),
    });
    await using _docker = await serveDocker(tree.root, "/run/docker.sock", dockerRoutes);
    const directory = createContainerDirectory({ root: createHostRoot(tree.root), env: {}, podScope: () => false });
    const found = (await directory.list(signal)).filter(({ runtime }) => runtime === "processes");
    expect(found.map(({ id, name }) => [id, name])).toEqual([
      ["hand/c-deb", "c-deb"],
      ["other/c-deb", "c-deb"],
      ["user.slice/runc-tools.scope", "tools"],
    ]);
    await expect(directory.find("c-deb", signal)).rejects.toMatchObject({ code: "usage" });
    expect(await directory.pidOf(await directory.find("hand/c-deb", signal), signal)).toBe(50);
    expect(await directory.pidOf(await directory.find("tools", signal), signal)).toBe(53);
    await expect(directory.find("", signal)).rejects.toMatchObject({ code: "usage", message: expect.stringContaining("empty") });
  });

  it("rejects a name shared by two running containers", async () => {
    using tree = createHostTree(hostPid);
    const labels = (name: string) => ({
      "io.kubernetes.pod.name": name,
      "io.kubernetes.pod.namespace": "shop",
      "io.kubernetes.pod.uid": name,
    });
    const containers = [web, db].map((id, index) => ({ id, metadata: { name: "app" }, state: 1, labels: labels(`pod-${index}`) }));
    await using _cri = await serveCri(tree.root, "/run/containerd/containerd.sock", { name: "containerd", version: "1.7.0", containers });
    const directory = createContainerDirectory({ root: createHostRoot(tree.root), env: {}, podScope: () => false });
    await expect(directory.find("app", signal)).rejects.toMatchObject({
      code: "usage",
      message: expect.stringContaining("pod-0/app (111111111111), pod-1/app"),
    });
    expect((await directory.find("pod-1/app", signal)).id).toBe(db);
  });

  it("finds containers of a second runtime by their processes", async () => {
    using tree = createHostTree({
      ...hostPid,
      "/proc/self/cgroup": "0::/user.slice\n",
      ...processFiles(50, `/system.slice/docker-${db}.scope`),
      [`/var/lib/docker/containers/${db}/config.v2.json`]: JSON.stringify({ Name: "/shop-db-1", Config: { Labels: {} } }),
      ...processFiles(60, `/kubepods/pod1/${web}`),
    });
    const containers = [{ id: web, metadata: { name: "web" }, state: 1, labels: {} }];
    await using _cri = await serveCri(tree.root, "/run/containerd/containerd.sock", {
      name: "containerd",
      version: "1.7.0",
      containers,
      pids: { web: 60 },
    });
    const directory = createContainerDirectory({ root: createHostRoot(tree.root), env: {}, podScope: () => false });
    expect((await directory.list(signal)).map(({ name, runtime }) => [name, runtime])).toEqual([
      ["shop-db-1", "processes"],
      ["web", "containerd"],
    ]);
    expect(await directory.pidOf(await directory.find("shop-db-1", signal), signal)).toBe(50);
    expect(await directory.pidOf(await directory.find("web", signal), signal)).toBe(60);
  });

  it("falls back to processes if no runtime responds", async () => {
    using tree = createHostTree({
      ...hostPid,
      "/proc/self/cgroup": "0::/user.slice\n",
      ...processFiles(50, `/system.slice/docker-${web}.scope`),
      ...processFiles(51, `/system.slice/docker-${web}.scope`, 50),
      // Entered later from outside, with a lower pid.
      ...processFiles(9, `/system.slice/docker-${db}.scope`, 1),
      ...processFiles(60, "/system.slice/sshd.service"),
      [`/var/lib/docker/containers/${web}/config.v2.json`]: JSON.stringify({ Name: "/shop-web-1", Config: { Labels: {} } }),
    });
    const directory = createContainerDirectory({ root: createHostRoot(tree.root), env: {}, podScope: () => false });
    expect((await directory.list(signal)).map(({ id, name, runtime }) => [id, name, runtime])).toEqual([
      [db, "", "processes"],
      [web, "shop-web-1", "processes"],
    ]);
    const found = await directory.find("shop-web-1", signal);
    expect(await directory.pidOf(found, signal)).toBe(50);
    await expect(directory.exec(found, { argv: ["/bin/true"], hasInput: false, signal })).rejects.toMatchObject({ code: "unsupported" });
  });

  it("reports a runtime that becomes unavailable", async () => {
    using tree = createHostTree(hostPid);
    const docker = await serveDocker(tree.root, "/run/docker.sock", dockerRoutes);
    const directory = createContainerDirectory({ root: createHostRoot(tree.root), env: {}, podScope: () => false });
    await directory.list(signal);
    await docker[Symbol.asyncDispose]();
    await expect(directory.list(signal)).rejects.toThrow("/run/docker.sock");
    expect(await directory.list(signal)).toEqual([]);
  });
});

describe("processIn()", () => {
  it.each([
    ['{"pid":42,"runtimeSpec":{"linux":{"cgroupsPath":"/k8s.io/x"}}}', { pid: 42, cgroupPath: "/k8s.io/x" }],
    ['{"pid":42}', { pid: 42, cgroupPath: "" }],
    ['{"pid":0}', null],
    ['{"pid":"42"}', null],
    ["", null],
    ["null", null],
  ])("reads %j", (text, expected) => {
    expect(processIn(text)).toEqual(expected);
  });
});
