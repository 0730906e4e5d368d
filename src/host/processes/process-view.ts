/** What is needed to run a command in the environment of a process: its root directory, namespaces and user. */

import { createHostRoot } from "../files/host-root.ts";
import { fieldsOf } from "../files/kernel-text.ts";

export interface ProcessView {
  pid: number;
  /** Distinguishes it from a later process with the same pid. */
  startTicks: string;
  /** Its root directory, as a path of this machine; empty when it is the agent's own. */
  rootPrefix: string;
  uid: number;
  gid: number;
  /** Those that differ from the agent's own: `mnt`, `pid`, `net`, `uts`, `ipc`, `user`, `cgroup`. */
  namespaces: string[];
  /** The same for all processes of a container, and different between containers. */
  place: string;
}

const kinds = ["mnt", "pid", "net", "uts", "ipc", "user", "cgroup"];

/** Null if it has exited, or access to its namespaces is denied. */
export function viewProcess(pid: number, root = "/"): ProcessView | null {
  const host = createHostRoot(root);
  const startTicks = startTicksOf(pid, root);
  const status = host.readText(`/proc/${pid}/status`);
  if (startTicks === null || status === null) return null;
  const idOf = (name: string): number => Number(new RegExp(`^${name}:\\s+(\\d+)`, "m").exec(status)?.[1] ?? Number.NaN);
  const namespaces: string[] = [];
  for (const kind of kinds) {
    const theirs = host.readLink(`/proc/${pid}/ns/${kind}`);
    const ours = host.readLink(`/proc/self/ns/${kind}`);
    // Kernels without a kind of namespace have one for all.
    if (theirs === null && ours === null) continue;
    if (theirs === null) return null;
    if (theirs !== ours) namespaces.push(kind);
  }
  const isOwnRoot = !namespaces.includes("mnt") && host.readLink(`/proc/${pid}/root`) === host.readLink("/proc/self/root");
  const [uid, gid] = [idOf("Uid"), idOf("Gid")];
  if (Number.isNaN(uid) || Number.isNaN(gid)) return null;
  return {
    pid,
    startTicks,
    rootPrefix: isOwnRoot ? "" : host.resolve(`/proc/${pid}/root`),
    uid,
    gid,
    namespaces,
    place: ["mnt", "pid"].map((kind) => host.readLink(`/proc/${pid}/ns/${kind}`) ?? "").join(" "),
  };
}

/** Start time of a process in ticks since boot; null if there is no such process. */
export function startTicksOf(pid: number, root = "/"): string | null {
  const text = createHostRoot(root).readText(`/proc/${pid}/stat`);
  // The name may contain blanks and parentheses, so fields are counted after its end. The 22nd is the start time.
  return text === null ? null : (fieldsOf(text.slice(text.lastIndexOf(")") + 1))[19] ?? null);
}

/** The inode of this process's pid namespace: pids are meaningful only together with it. */
export function pidNamespaceId(root = "/"): string {
  return /\d+/.exec(createHostRoot(root).readLink("/proc/self/ns/pid") ?? "")?.[0] ?? "0";
}

/** Processes whose initial environment contains `entry` (`NAME=value`), as far as this agent may read them. */
export function processesWithVariable(entry: string, root = "/"): number[] {
  const host = createHostRoot(root);
  const wanted = `\0${entry}\0`;
  return (host.list("/proc") ?? []).flatMap((name) => {
    if (!/^\d+$/.test(name)) return [];
    const environment = host.readText(`/proc/${name}/environ`);
    return environment !== null && `\0${environment}\0`.includes(wanted) ? [Number(name)] : [];
  });
}

/** Processes that have a supplementary group. Unlike environments, groups are readable for all users. */
export function processesWithGroup(groupId: number, root = "/"): number[] {
  const host = createHostRoot(root);
  const wanted = new RegExp(`^Groups:.*\\s${groupId}(?:\\s|$)`, "m");
  return (host.list("/proc") ?? []).flatMap((name) =>
    /^\d+$/.test(name) && wanted.test(host.readText(`/proc/${name}/status`) ?? "") ? [Number(name)] : [],
  );
}

/** <linux/capability.h>. */
const capabilityBits: Readonly<Record<string, number>> = {
  dac_read_search: 2,
  kill: 5,
  net_raw: 13,
  sys_chroot: 18,
  sys_ptrace: 19,
  sys_admin: 21,
  syslog: 34,
};

/** Whether this process could pass on a capability; false for capabilities not listed above. */
export function mayGiveCapability(name: string, root = "/"): boolean {
  const bit = capabilityBits[name];
  const permitted = /^CapPrm:\s*([0-9a-f]+)/m.exec(createHostRoot(root).readText("/proc/self/status") ?? "")?.[1];
  return bit !== undefined && permitted !== undefined && ((BigInt(`0x${permitted}`) >> BigInt(bit)) & 1n) === 1n;
}
