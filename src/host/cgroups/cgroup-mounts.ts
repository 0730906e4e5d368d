import { createHostRoot } from "../files/host-root.ts";
import { parseMountInfo } from "../files/mountinfo.ts";

/** A cgroup tree; groups can be created if it is writable. */
export interface CgroupMount {
  version: 1 | 2;
  /** Absolute, on this machine. */
  directory: string;
  /** Controllers that enforce limits in this tree: `memory`, `cpu`, `pids`. */
  controllers: string[];
}

const known = ["memory", "cpu", "pids"];

/** The trees that can limit a command. The v2 tree is included even without controllers: it can kill a whole group. */
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
