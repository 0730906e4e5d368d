/** Containers by their processes alone, for hosts where no runtime responds: processes that share a container's cgroup belong to it. */

import { printable } from "../../base/escape-text.ts";
import { processCgroup } from "../cgroups/process-cgroup.ts";
import type { HostRoot } from "../files/host-root.ts";
import { parseMountInfo } from "../files/mountinfo.ts";
import { containerOf, createContainerReader } from "../naming/container-facts.ts";
import { parseProcessStat } from "../processes/process-stat.ts";
import type { ContainerInfo } from "./container-directory.ts";
import type { OwnPlace } from "./own-place.ts";

export interface ProcessContainer extends ContainerInfo {
  /** Pid of its first process in this agent's namespace. */
  pid: number;
}

interface Member {
  pid: number;
  parentPid: number;
  startTicks: number;
}

const maxProcesses = 100_000;

/** All visible containers, including the agent's own, without pause containers. */
export function listProcessContainers(root: HostRoot, place: Pick<OwnPlace, "isHostPid" | "pod">): ProcessContainer[] {
  const own = processCgroup(root.readText("/proc/self/cgroup") ?? "") ?? "/";
  const groups = new Map<string, Member[]>();
  const named: ProcessContainer[] = [];
  for (const name of (root.list("/proc") ?? []).filter((entry) => /^\d+$/.test(entry)).slice(0, maxProcesses)) {
    const pid = Number(name);
    const cgroup = processCgroup(root.readText(`/proc/${pid}/cgroup`) ?? "");
    if (cgroup === null) continue;
    if (!isContainerCgroup(cgroup, own, place)) {
      const container = place.isHostPid ? namedContainer(root, pid, cgroup) : null;
      if (container !== null) named.push(container);
      continue;
    }
    const text = root.readText(`/proc/${pid}/stat`) ?? "";
    const stat = parseProcessStat(text);
    if (stat === null) continue;
    const parentPid = Number(text.slice(text.lastIndexOf(")") + 2).split(" ", 2)[1]);
    const members = groups.get(cgroup) ?? [];
    members.push({ pid, parentPid, startTicks: stat.startTicks });
    groups.set(cgroup, members);
  }
  const reader = createContainerReader(root);
  const grouped = [...groups].flatMap(([cgroup, members]): ProcessContainer[] => {
    const first = firstOf(members);
    if (first === undefined || isPause(root, first.pid)) return [];
    const found = containerOf(cgroup);
    const facts = found === null ? null : reader.of(found);
    const kubelet = kubeletName(root, first.pid);
    const pod = facts?.pod ?? null;
    return [
      {
        id: found?.id ?? printable(cgroup, 256),
        name: kubelet || pod?.container || facts?.name || "",
        pod: pod === null ? null : { name: pod.name, namespace: pod.namespace ?? "", uid: "" },
        service: facts?.service ?? "",
        image: "",
        runtime: "processes",
        isRunning: true,
        isOwn: cgroup === own,
        pid: first.pid,
      },
    ];
  });
  return [...grouped, ...named];
}

/**
 * Containers of `ctr`, `runc` and the like, whose ids are arbitrary names: the first process of its own pid and mount namespaces, in a cgroup that is not a
 * systemd unit. Two with the same name differ by cgroup.
 */
function namedContainer(root: HostRoot, pid: number, cgroup: string): ProcessContainer | null {
  const name = /\/(?:[\w-]*?runc-)?([\w.-]+?)(?:\.scope)?$/.exec(cgroup)?.[1] ?? "";
  if (name === "" || /\.(?:service|slice|mount|socket|swap)$/.test(name) || /^(?:session-|user@|init$)/.test(name)) return null;
  const numbers = /^NSpid:\s+([\d\s]+?)$/m.exec(root.readText(`/proc/${pid}/status`) ?? "")?.[1]?.split(/\s+/) ?? [];
  if (numbers.length < 2 || numbers.at(-1) !== "1") return null;
  const isElsewhere = (kind: string): boolean => root.readLink(`/proc/${pid}/ns/${kind}`) !== root.readLink(`/proc/self/ns/${kind}`);
  if (!isElsewhere("mnt") || !isElsewhere("pid") || isPause(root, pid)) return null;
  return {
    id: printable(cgroup.slice(1), 256),
    name: printable(name, 256),
    pod: null,
    service: "",
    image: "",
    runtime: "processes",
    isRunning: true,
    isOwn: false,
    pid,
  };
}

/** On a host only cgroups that look like containers; in a pod's namespace every group but the agent's own. */
function isContainerCgroup(cgroup: string, own: string, place: Pick<OwnPlace, "isHostPid" | "pod">): boolean {
  if (containerOf(cgroup) !== null) return true;
  return !place.isHostPid && place.pod !== null && (cgroup === own || cgroup.startsWith("/.."));
}

/** The process whose parent is outside; of several, such as exec sessions, the oldest. */
function firstOf(members: readonly Member[]): Member | undefined {
  const pids = new Set(members.map(({ pid }) => pid));
  const roots = members.filter(({ parentPid }) => !pids.has(parentPid));
  return roots.toSorted((a, b) => a.startTicks - b.startTicks || a.pid - b.pid)[0];
}

function isPause(root: HostRoot, pid: number): boolean {
  return (root.readText(`/proc/${pid}/comm`, undefined, 64) ?? "").trim() === "pause";
}

/** The kubelet mounts a file into each container from a directory with the container's name. */
function kubeletName(root: HostRoot, pid: number): string {
  const mounts = parseMountInfo(root.readText(`/proc/${pid}/mountinfo`) ?? "");
  const log = mounts.find((mount) => mount.mountPoint === "/dev/termination-log");
  return printable(/\/pods\/[^/]+\/containers\/([^/]+)\//.exec(log?.root ?? "")?.[1] ?? "", 256);
}
