import { createHostRoot } from "../files/host-root.ts";
import { parseMountInfo } from "../files/mountinfo.ts";

/** A tree of control groups, where groups can be made when it is writable. */
export interface CgroupMount {
  version: 1 | 2;
  /** Absolute, on this machine. */
  directory: string;
  /** Of `memory`, `cpu`, `pids`: those that limit in this tree. */
  controllers: string[];
}

const known = ["memory", "cpu", "pids"];

/** The trees that can limit a command, and that of version 2 also when it limits nothing: it can end a group at once. */
export function readCgroupMounts(root = "/"): CgroupMount[] {
  const host = createHostRoot(root);
  const mounts: CgroupMount[] = [];
  for (const entry of parseMountInfo(host.readText("/proc/self/mountinfo") ?? "")) {
    if (entry.fsType !== "cgroup" && entry.fsType !== "cgroup2") continue;
    if (mounts.some(({ directory }) => directory === host.resolve(entry.mountPoint))) continue;
    const offered =
      entry.fsType === "cgroup" ? entry.superOptions : (host.readText(`${entry.mountPoint}/cgroup.controllers`) ?? "").trim().split(/\s+/);
    const controllers = known.filter((controller) => offered.includes(controller));
    if (entry.fsType === "cgroup" && controllers.length === 0) continue;
    mounts.push({ version: entry.fsType === "cgroup" ? 1 : 2, directory: host.resolve(entry.mountPoint), controllers });
  }
  return mounts;
}
