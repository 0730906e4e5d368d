/** Detects from the kernel and files whether this process runs on a machine, in a container, or in a pod. */

import { printable } from "../../base/escape-text.ts";
import { processCgroup } from "../cgroups/process-cgroup.ts";
import type { HostRoot } from "../files/host-root.ts";
import { type MountEntry, parseMountInfo } from "../files/mountinfo.ts";
import { containerOf } from "../naming/container-facts.ts";
import { parseLabels } from "../naming/kubernetes-facts.ts";

export interface OwnPod {
  /** Texts are empty when unknown. */
  uid: string;
  name: string;
  namespace: string;
  /** Name of the agent's own container in it. */
  container: string;
  /** From the downward API. */
  labels: ReadonlyMap<string, string>;
}

export interface OwnPlace {
  isContainer: boolean;
  /** Null outside of Kubernetes. */
  pod: OwnPod | null;
  /** Full id; empty when unknown. */
  containerId: string;
  /** Sees the machine's processes: its pid namespace is the first one. */
  isHostPid: boolean;
  /** Sees processes of other containers in a pid namespace that is not the machine's. */
  isSharedPid: boolean;
  /** May enter the namespaces of other processes. */
  entersNamespaces: boolean;
  /** `/proc` hides other users' processes from this one. */
  hidesProcesses: boolean;
  evidence: string[];
}

/** <linux/proc_ns.h>, PROC_PID_INIT_INO: the same on every machine. */
const firstPidNamespace = "pid:[4026531836]";
const labelFiles = ["/etc/podinfo/labels", "/etc/pod-info/labels", "/podinfo/labels"];
const serviceAccount = "/var/run/secrets/kubernetes.io/serviceaccount";
const uid = "[0-9a-f]{8}[-_][0-9a-f]{4}[-_][0-9a-f]{4}[-_][0-9a-f]{4}[-_][0-9a-f]{12}|[0-9a-f]{32}";
const podCgroup = new RegExp(`kubepods.*?pod(${uid})`);
const podMount = new RegExp(`/pods/(${uid})/(?:containers/([^/]+)/|etc-hosts$)`);
/** The kubelet bind-mounts these into every container. */
const podMountPoints = new Set(["/etc/hosts", "/dev/termination-log"]);
const containerMountPoints = new Set(["/etc/hosts", "/etc/hostname", "/etc/resolv.conf"]);
const containerLayers = /\/(?:docker\/(?:overlay2|image|rootfs)|containerd\/|containers\/storage\/)/;

export function readOwnPlace(root: HostRoot, env: Readonly<Record<string, string | undefined>>): OwnPlace {
  const cgroup = processCgroup(root.readText("/proc/self/cgroup") ?? "") ?? "/";
  const mounts = parseMountInfo(root.readText("/proc/self/mountinfo") ?? "");
  const evidence: string[] = [];
  const isHostPid = root.readLink("/proc/self/ns/pid") === firstPidNamespace || comm(root, 2) === "kthreadd";
  const containerId = ownContainerId(cgroup, mounts);
  // A virtual machine built from a container image has a container's files but is not one.
  const isBoxed = !(isHostPid && isFirstMountNamespace(root)) && isInContainer(root, env, { cgroup, mounts, containerId }, evidence);
  const pod = readPod(root, env, { cgroup, mounts, isBoxed }, evidence);
  const isContainer = isBoxed || pod !== null;
  if (isContainer) evidence.push(isHostPid ? "pid namespace of the host" : "pid namespace of its own");
  return {
    isContainer,
    pod,
    containerId,
    isHostPid,
    entersNamespaces: hasCapabilities(root),
    isSharedPid: isContainer && !isHostPid && seesOtherContainers(root, cgroup, evidence),
    hidesProcesses: mounts.some(
      (mount) =>
        mount.mountPoint === "/proc" && mount.superOptions.some((option) => /^hidepid=(?:[24]|invisible|ptraceable)$/.test(option)),
    ),
    evidence,
  };
}

function readPod(
  root: HostRoot,
  env: Readonly<Record<string, string | undefined>>,
  { cgroup, mounts, isBoxed }: { cgroup: string; mounts: readonly MountEntry[]; isBoxed: boolean },
  evidence: string[],
): OwnPod | null {
  const bound = mounts.filter((mount) => podMountPoints.has(mount.mountPoint)).map((mount) => podMount.exec(mount.root));
  const byCgroup = podCgroup.exec(cgroup)?.[1];
  const byMount = bound.find((match) => match !== null)?.[1];
  const hasAccount = root.stat(`${serviceAccount}/namespace`) !== null;
  const hasVariable = (env["KUBERNETES_SERVICE_HOST"] ?? "") !== "";
  const finding = `cgroup ${printable(cgroup, 200)}`;
  if (byCgroup !== undefined && !evidence.includes(finding)) evidence.push(finding);
  if (byMount !== undefined) evidence.push("files of the kubelet are mounted here");
  if (hasAccount) evidence.push("service account of a pod");
  // Any shell may export the variable on a host: it counts only in a container.
  if (byCgroup === undefined && byMount === undefined && !hasAccount && !(hasVariable && isBoxed)) return null;
  if (hasVariable) evidence.push("KUBERNETES_SERVICE_HOST");
  return {
    uid: (byCgroup ?? byMount ?? env["POD_UID"] ?? "").replaceAll("_", "-"),
    name: printable(env["POD_NAME"] ?? env["K8S_POD_NAME"] ?? env["HOSTNAME"] ?? "", 256),
    namespace: printable(
      env["POD_NAMESPACE"] ?? env["K8S_NAMESPACE"] ?? (root.readText(`${serviceAccount}/namespace`, undefined, 1_024) ?? "").trim(),
      256,
    ),
    container: printable(bound.find((match) => match?.[2] !== undefined)?.[2] ?? env["CONTAINER_NAME"] ?? "", 256),
    labels: readLabels(root),
  };
}

function readLabels(root: HostRoot): ReadonlyMap<string, string> {
  for (const file of labelFiles) {
    const text = root.readText(file, undefined, 64 * 1024);
    if (text !== null) return parseLabels(text);
  }
  return new Map();
}

function ownContainerId(cgroup: string, mounts: readonly MountEntry[]): string {
  const byCgroup = containerOf(cgroup)?.id;
  if (byCgroup !== undefined) return byCgroup;
  for (const mount of mounts) {
    const id = containerMountPoints.has(mount.mountPoint) ? /\/([0-9a-f]{64})\//.exec(mount.root)?.[1] : undefined;
    if (id !== undefined) return id;
  }
  return "";
}

function isInContainer(
  root: HostRoot,
  env: Readonly<Record<string, string | undefined>>,
  { cgroup, mounts, containerId }: { cgroup: string; mounts: readonly MountEntry[]; containerId: string },
  evidence: string[],
): boolean {
  const layer = mounts.findLast((mount) => mount.mountPoint === "/" && mount.fsType === "overlay")?.superOptions.join(",") ?? "";
  const signs: [boolean, string][] = [
    [root.stat("/.dockerenv") !== null, "/.dockerenv"],
    [root.stat("/run/.containerenv") !== null, "/run/.containerenv"],
    [containerOf(cgroup) !== null, `cgroup ${printable(cgroup, 200)}`],
    [containerId !== "" && containerOf(cgroup) === null, "files of a container runtime are mounted here"],
    [containerLayers.test(layer), "the root file system is a container's"],
    [(root.readText("/run/systemd/container", undefined, 256) ?? "").trim() !== "", "/run/systemd/container"],
    [(root.readText("/run/host/container-manager", undefined, 256) ?? "").trim() !== "", "/run/host/container-manager"],
    // An unmarked container, such as one of `ctr` or `runc`; Linux under Windows always has such a namespace.
    [
      hasOwnPids(root) && !/microsoft/i.test(root.readText("/proc/sys/kernel/osrelease", undefined, 256) ?? ""),
      "process 1 is not the machine's first",
    ],
    // systemd, LXC and Podman set it for processes that they start.
    [/^[a-z][\w-]*$/.test(env["container"] ?? ""), `container=${printable(env["container"] ?? "", 32)}`],
  ];
  const found = signs.filter(([isThere]) => isThere).map(([, text]) => text);
  evidence.push(...found.filter((text) => !evidence.includes(text)));
  return found.length > 0;
}

/** The first process of a shared namespace is the pod's pause container, or simply in another cgroup than this one. */
function seesOtherContainers(root: HostRoot, cgroup: string, evidence: string[]): boolean {
  if (comm(root, 1) === "pause") {
    evidence.push("process 1 is the pod's pause");
    return true;
  }
  const first = processCgroup(root.readText("/proc/1/cgroup") ?? "");
  if (first === null || first === cgroup) return false;
  evidence.push("process 1 is in another container");
  return true;
}

/** <linux/capability.h>: CAP_SYS_CHROOT, CAP_SYS_PTRACE, CAP_SYS_ADMIN. */
const enterMask = (1n << 18n) | (1n << 19n) | (1n << 21n);

/** setns(2) for mount namespaces needs SYS_CHROOT and SYS_ADMIN; opening /proc/<pid>/ns needs SYS_PTRACE. */
function hasCapabilities(root: HostRoot): boolean {
  const bits = /^CapEff:\s*([0-9a-f]{1,16})$/m.exec(root.readText("/proc/self/status") ?? "")?.[1];
  return bits !== undefined && (BigInt(`0x${bits}`) & enterMask) === enterMask;
}

/** Inodes of the initial mount namespace; fixed since Linux 6.18. */
const firstMountNamespaces = new Set(["mnt:[4026531840]", "mnt:[4026531841]", "mnt:[4026531832]"]);

/** A process in a container has its own mount namespace, even with the host's pid namespace. */
function isFirstMountNamespace(root: HostRoot): boolean {
  const own = root.readLink("/proc/self/ns/mnt");
  return own !== null && (firstMountNamespaces.has(own) || own === root.readLink("/proc/1/ns/mnt"));
}

/** Whether this process is in a nested pid namespace, as far as the kernel reports it. */
function hasOwnPids(root: HostRoot): boolean {
  const namespace = root.readLink("/proc/self/ns/pid");
  return namespace !== null && namespace !== firstPidNamespace && comm(root, 2) !== "kthreadd";
}

function comm(root: HostRoot, pid: number): string {
  return (root.readText(`/proc/${pid}/comm`, undefined, 64) ?? "").trim();
}
