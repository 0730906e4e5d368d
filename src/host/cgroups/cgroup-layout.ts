import { createHostRoot } from "../files/host-root.ts";
import { parseMountInfo } from "../files/mountinfo.ts";
import { findCgroupHierarchies } from "./cgroup-hierarchies.ts";

/** Which cgroup version accounts for CPU and memory here; `hybrid` when both are mounted and used. */
export interface CgroupLayout {
  version: "v1" | "v2" | "hybrid" | "none";
  /** Controllers that can be read: `cpu`, `cpuacct`, `memory`, `pids`. */
  controllers: string[];
}

/** `root` is where the host's file system is; default `/`. */
export function readCgroupLayout(root = "/"): CgroupLayout {
  const host = createHostRoot(root);
  const hierarchies = findCgroupHierarchies(host, parseMountInfo(host.readText(`${host.viewpoint}/mountinfo`) ?? ""));
  const versions = new Set(hierarchies.map(({ version }) => version));
  const version = versions.size === 2 ? "hybrid" : versions.has(2) ? "v2" : versions.has(1) ? "v1" : "none";
  return { version, controllers: hierarchies.flatMap(({ controllers }) => [...controllers]).sort() };
}
