/** Locates the controllers: cgroup v2 has one tree, v1 a tree per controller or pair, hybrid both. */

import { createHostRoot, type HostRoot } from "../files/host-root.ts";
import { fieldsOf } from "../files/kernel-text.ts";
import { type MountEntry, parseMountInfo } from "../files/mountinfo.ts";

export type CgroupController = "cpu" | "cpuacct" | "memory" | "pids";

export interface CgroupHierarchy {
  version: 1 | 2;
  mountPoint: string;
  /** The group that is mounted: `/` unless only a part of the tree is visible, as in a container. */
  root: string;
  controllers: ReadonlySet<CgroupController>;
}

const known: readonly CgroupController[] = ["cpu", "cpuacct", "memory", "pids"];

function controllersOf(root: HostRoot, entry: MountEntry): Set<CgroupController> {
  if (entry.fsType === "cgroup") return new Set(known.filter((controller) => entry.superOptions.includes(controller)));
  const listed = fieldsOf(root.readText(`${entry.mountPoint}/cgroup.controllers`) ?? "");
  const controllers = new Set(known.filter((controller) => listed.includes(controller)));
  // CPU time is counted in every v2 group, with or without the controller.
  controllers.add("cpuacct");
  return controllers;
}

/** The widest view comes first: agents in containers often see both their own part and the host's whole tree. */
function byWidth(a: MountEntry, b: MountEntry): number {
  return a.root.length - b.root.length || a.mountPoint.length - b.mountPoint.length;
}

/** Each controller is in exactly one of the returned hierarchies; v1 wins, as a controller bound there is not available in v2. */
export function findCgroupHierarchies(root: HostRoot, mounts: readonly MountEntry[]): CgroupHierarchy[] {
  const taken = new Set<CgroupController>();
  const hierarchies: CgroupHierarchy[] = [];
  for (const fsType of ["cgroup", "cgroup2"]) {
    for (const entry of mounts.filter((mount) => mount.fsType === fsType).sort(byWidth)) {
      const controllers = new Set([...controllersOf(root, entry)].filter((controller) => !taken.has(controller)));
      if (controllers.size === 0) continue;
      for (const controller of controllers) taken.add(controller);
      hierarchies.push({ version: fsType === "cgroup" ? 1 : 2, mountPoint: entry.mountPoint, root: entry.root, controllers });
    }
  }
  return hierarchies;
}

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
