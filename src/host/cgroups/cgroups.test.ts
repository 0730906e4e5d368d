import { readFileSync } from "node:fs";
import { describe, expect, it } from "vitest";
import { damagedTexts } from "../../base/damaged-texts.fixture.ts";
import { createHostRoot } from "../files/host-root.ts";
import { parseMountInfo } from "../files/mountinfo.ts";
import { createPacer } from "../files/pacer.ts";
import { createHostTree, hasSaneNumbers, type TreeEntry } from "../host-tree.fixture.ts";
import { parseLimit } from "./cgroup-counters.ts";
import { scanCgroups } from "./cgroups.ts";

type Files = Record<string, TreeEntry>;
const below = (directory: string, files: Record<string, string>): Files =>
  Object.fromEntries(Object.entries(files).map(([name, text]) => [`${directory}/${name}`, text]));

const v2Mount = "1 1 0:2 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw";
const v2Root: Files = { "sys/fs/cgroup/cgroup.controllers": "cpu memory pids\n", "sys/fs/cgroup/cpu.stat": "usage_usec 1\n" };
const v2Group = (path: string, files: Record<string, string> = {}): Files =>
  below(`sys/fs/cgroup${path}`, {
    "cgroup.events": "populated 1\nfrozen 0\n",
    "cpu.stat": "usage_usec 2000000\nuser_usec 1500000\nsystem_usec 500000\nnr_periods 100\nnr_throttled 25\nthrottled_usec 999\n",
    "cpu.max": "max 100000\n",
    "memory.current": "10485760\n",
    "memory.stat": "anon 4096\nfile 8192\ninactive_file 485760\nactive_file 1\n",
    "memory.max": "max\n",
    "memory.events": "low 0\nhigh 0\nmax 0\noom 1\noom_kill 1\n",
    "pids.current": "12\n",
    ...files,
  });

const v1Mounts = [
  "1 1 0:1 / /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct",
  "1 1 0:2 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory",
  "1 1 0:3 / /sys/fs/cgroup/pids rw - cgroup cgroup rw,pids",
].join("\n");
const v1Group = (path: string, processes = "42\n"): Files => ({
  ...below(`sys/fs/cgroup/cpu,cpuacct${path}`, {
    "cgroup.procs": processes,
    "cpuacct.usage": "3000000000\n",
    "cpu.stat": "nr_periods 50\nnr_throttled 5\nthrottled_time 123\n",
    "cpu.cfs_quota_us": "150000\n",
    "cpu.cfs_period_us": "100000\n",
  }),
  ...below(`sys/fs/cgroup/memory${path}`, {
    "cgroup.procs": processes,
    "memory.usage_in_bytes": "10485760\n",
    "memory.stat": "cache 1\ninactive_file 7\ntotal_inactive_file 485760\n",
    "memory.limit_in_bytes": "9223372036854771712\n",
    "memory.oom_control": "oom_kill_disable 0\nunder_oom 0\noom_kill 3\n",
  }),
  ...below(`sys/fs/cgroup/pids${path}`, { "cgroup.procs": processes, "pids.current": "4\n" }),
});

function scan(files: Files, mounts: string, options = {}) {
  const tree = createHostTree(files);
  return scanCgroups(createHostRoot(tree.root), parseMountInfo(mounts), createPacer(), options).finally(() => tree[Symbol.dispose]());
}
const pathsOf = async (...args: Parameters<typeof scan>): Promise<string[]> =>
  (await scan(...args)).groups.map((group) => group.path).sort();

describe("scanCgroups()", () => {
  it("reads v2", async () => {
    const result = await scan({ ...v2Root, ...v2Group("/web", { "cpu.max": "50000 100000\n", "memory.max": "20971520\n" }) }, v2Mount);
    expect(result.groups).toEqual([
      {
        path: "/web",
        cpuUsageUs: 2_000_000,
        cpuLimitCores: 0.5,
        periods: 100,
        throttledPeriods: 25,
        memoryUsedBytes: 10_000_000,
        memoryLimitBytes: 20_971_520,
        oomKills: 1,
        pids: 12,
      },
    ]);
  });

  it("reads v1, merging the hierarchies by path", async () => {
    expect((await scan(v1Group("/docker/abc"), v1Mounts)).groups.find((group) => group.path === "/docker/abc")).toEqual({
      path: "/docker/abc",
      cpuUsageUs: 3_000_000,
      cpuLimitCores: 1.5,
      periods: 50,
      throttledPeriods: 5,
      memoryUsedBytes: 10_000_000,
      memoryLimitBytes: null,
      oomKills: 3,
      pids: 4,
    });
  });

  it("joins v1 groups of different names that hold the same process", async () => {
    const keep = (files: Files, hierarchy: string): Files =>
      Object.fromEntries(Object.entries(files).filter(([name]) => name.startsWith(`sys/fs/cgroup/${hierarchy}`)));
    const files = {
      ...keep(v1Group("/limited"), "cpu"),
      ...keep(v1Group("/user/42/app"), "memory"),
      "proc/42/cgroup": "3:pids:/\n2:memory:/user/42/app\n1:cpu,cpuacct:/limited\n",
    };
    const { groups } = await scan(files, v1Mounts);
    // The process is listed under its deepest group; the limits of the other group apply to it, too.
    expect(groups.find(({ path }) => path === "/user/42/app")).toMatchObject({
      throttledPeriods: 5,
      cpuLimitCores: 1.5,
      memoryUsedBytes: expect.any(Number),
    });
    expect(groups.find(({ path }) => path === "/limited")).toMatchObject({ throttledPeriods: 5 });
  });

  it("takes the controllers of a hybrid from both versions", async () => {
    const mounts = "1 1 0:2 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n1 1 0:3 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw";
    const result = await scan(
      {
        ...below("sys/fs/cgroup/unified", { "cgroup.controllers": "\n" }),
        ...below("sys/fs/cgroup/unified/a.service", { "cgroup.events": "populated 1\n", "cpu.stat": "usage_usec 77\n" }),
        ...below("sys/fs/cgroup/memory/a.service", {
          "cgroup.procs": "1\n",
          "memory.usage_in_bytes": "4096\n",
          "memory.limit_in_bytes": "8192\n",
        }),
      },
      mounts,
    );
    expect(result.groups).toMatchObject([
      { path: "/a.service", cpuUsageUs: 77, memoryUsedBytes: 4096, memoryLimitBytes: 8192, cpuLimitCores: null, pids: null },
    ]);
  });

  const empty = { "cgroup.events": "populated 0\n", "memory.events": "oom 0\noom_kill 0\n" };

  it("keeps a cgroup that is empty because its process was killed for lack of memory", async () => {
    const killed = { ...empty, "memory.events": "oom 1\noom_kill 1\n" };
    const result = await scan({ ...v2Root, ...v2Group("/leaky.service", killed), ...v2Group("/stopped.service", empty) }, v2Mount);
    expect(result.groups.map(({ path, oomKills }) => [path, oomKills])).toEqual([["/leaky.service", 1]]);
  });

  it("skips cgroups without processes, and inner cgroups without their own values", async () => {
    const files = {
      ...v2Root,
      ...v2Group("/system.slice"),
      ...v2Group("/system.slice/nginx.service"),
      ...v2Group("/system.slice/dead.service", empty),
      ...v2Group("/system.slice/system-getty.slice"),
      ...v2Group("/system.slice/system-getty.slice/getty@tty1.service"),
      ...v2Group("/kubepods/burstable/pod1", { "memory.max": "1000000\n" }),
      ...v2Group("/kubepods/burstable/pod1/container1"),
      ...v2Group("/empty.slice", empty),
      ...v2Group("/empty.slice/x.service", empty),
    };
    expect(await pathsOf(files, v2Mount)).toEqual([
      "/kubepods/burstable/pod1",
      "/kubepods/burstable/pod1/container1",
      "/system.slice",
      "/system.slice/nginx.service",
      "/system.slice/system-getty.slice/getty@tty1.service",
    ]);
  });

  it("shows the root only if it is a container's own cgroup", async () => {
    expect(await pathsOf(v2Root, v2Mount)).toEqual([]);
    expect(await pathsOf({ ...v2Root, ...v2Group(""), "sys/fs/cgroup/cgroup.type": "domain\n" }, v2Mount)).toEqual(["/"]);
    const v1Part = "1 1 0:2 /docker/abc /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory";
    expect(await pathsOf(v1Group(""), v1Part)).toEqual(["/docker/abc"]);
  });

  it("keeps the largest by memory within the limit, and counts the others", async () => {
    const files = { ...v2Root };
    for (let index = 0; index < 30; index++)
      Object.assign(files, v2Group(`/g${index}`, { "memory.current": `${index * 1000}\n`, "memory.stat": "" }));
    const result = await scan(files, v2Mount, { maxGroups: 3 });
    expect(result.groups.map((group) => group.path)).toEqual(["/g29", "/g28", "/g27"]);
    expect(result.cut).toBe(27);
  });

  it("bounds depth and number of directories", async () => {
    const files = { ...v2Root, ...v2Group("/a"), ...v2Group("/a/b"), ...v2Group("/a/b/c"), ...v2Group("/a/b/c/d") };
    const shallow = await scan(files, v2Mount, { maxDepth: 2 });
    expect(shallow.cut).toBe(1);
    expect(shallow.groups.map((group) => group.path)).not.toContain("/a/b/c");
    expect((await scan(files, v2Mount, { maxVisited: 3 })).cut).toBe(1);
  });

  it("strips control characters from names", async () => {
    expect(await pathsOf({ ...v2Root, ...v2Group("/evil\u001b[2J") }, v2Mount)).toEqual(["/evil[2J"]);
  });

  it("tolerates malformed files", async () => {
    const texts = ["usage_usec 2000000\nnr_periods 100\nnr_throttled 25\n", "50000 100000\n", "10485760\n"];
    for (const text of damagedTexts(texts, 12, 40)) {
      const broken = Object.fromEntries(
        ["cpu.stat", "cpu.max", "memory.current", "memory.stat", "memory.max", "memory.events", "pids.current"].map((name) => [name, text]),
      );
      const result = await scan({ ...v2Root, ...v2Group("/web", broken) }, v2Mount);
      expect(hasSaneNumbers(result.groups), JSON.stringify(text)).toBe(true);
    }
  });

  it("finds the cgroup of this process where cgroups exist", async () => {
    const root = createHostRoot();
    const mine = readFileSync("/proc/self/cgroup", "utf8")
      .split("\n")
      .map((line) => line.split(":").slice(2).join(":"))
      .filter((path) => path.length > 1);
    const result = await scanCgroups(root, parseMountInfo(root.readText("/proc/self/mountinfo") ?? ""), createPacer());
    expect(hasSaneNumbers(result)).toBe(true);
    if (mine.length > 0) expect(result.groups.some((group) => mine.includes(group.path))).toBe(true);
  });
});

describe("parseLimit()", () => {
  it.each([
    [null, null],
    ["max\n", null],
    ["-1\n", null],
    ["9223372036854771712\n", null],
    ["", null],
    ["0\n", 0],
    ["4096\n", 4096],
  ])("reads %j as %j", (text, expected) => {
    expect(parseLimit(text)).toBe(expected);
  });
});
