import { describe, expect, it } from "vitest";
import { createHostRoot } from "../files/host-root.ts";
import { parseMountInfo } from "../files/mountinfo.ts";
import { createHostTree } from "../host-tree.fixture.ts";
import { findCgroupHierarchies } from "./cgroup-hierarchies.ts";

const v1 = (controllers: string, point: string, root = "/"): string => `1 1 0:1 ${root} ${point} rw - cgroup cgroup rw,${controllers}`;
const v2 = (point: string, root = "/"): string => `1 1 0:2 ${root} ${point} rw - cgroup2 cgroup2 rw,nsdelegate`;

function find(files: Record<string, string>, ...lines: string[]): string[] {
  using tree = createHostTree(files);
  return findCgroupHierarchies(createHostRoot(tree.root), parseMountInfo(lines.join("\n"))).map(
    (hierarchy) => `v${hierarchy.version} ${hierarchy.mountPoint} ${[...hierarchy.controllers].sort().join(",")}`,
  );
}

describe("findCgroupHierarchies()", () => {
  it("finds v2", () => {
    expect(find({ "sys/fs/cgroup/cgroup.controllers": "cpuset cpu io memory hugetlb pids\n" }, v2("/sys/fs/cgroup"))).toEqual([
      "v2 /sys/fs/cgroup cpu,cpuacct,memory,pids",
    ]);
  });

  it("finds v1 with pairs of controllers", () => {
    expect(
      find(
        {},
        v1("cpu,cpuacct", "/sys/fs/cgroup/cpu,cpuacct"),
        v1("memory", "/sys/fs/cgroup/memory"),
        v1("name=systemd", "/sys/fs/cgroup/systemd"),
        v1("pids", "/sys/fs/cgroup/pids"),
      ),
    ).toEqual(["v1 /sys/fs/cgroup/pids pids", "v1 /sys/fs/cgroup/memory memory", "v1 /sys/fs/cgroup/cpu,cpuacct cpu,cpuacct"]);
  });

  it("in a hybrid, uses the version that each controller is bound to", () => {
    expect(
      find({ "sys/fs/cgroup/unified/cgroup.controllers": "pids\n" }, v1("memory", "/sys/fs/cgroup/memory"), v2("/sys/fs/cgroup/unified")),
    ).toEqual(["v1 /sys/fs/cgroup/memory memory", "v2 /sys/fs/cgroup/unified cpuacct,pids"]);
  });

  it("prefers the host's whole tree to the part of a container", () => {
    expect(find({}, v1("memory", "/sys/fs/cgroup/memory", "/docker/abc"), v1("memory", "/host/cgroup/memory"))).toEqual([
      "v1 /host/cgroup/memory memory",
    ]);
  });

  it("finds nothing if nothing is mounted", () => {
    expect(find({})).toEqual([]);
  });
});
