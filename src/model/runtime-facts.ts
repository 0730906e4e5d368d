/** Where an agent runs and what it can do there: names, what each runtime type allows, and labels. */

export const runtimeTypes = ["native", "docker", "k8s-sidecar", "k8s-daemonset"] as const;
export type RuntimeType = (typeof runtimeTypes)[number];

export const sidecarModes = ["cri", "shared-ns", "passive"] as const;
export type SidecarMode = (typeof sidecarModes)[number];

/** In display order. */
export const capabilityNames = ["connect", "exec", "shell", "run", "ebpf", "profile", "debug", "capture", "mesh"] as const;
export type CapabilityName = (typeof capabilityNames)[number];

export interface CapabilityFact {
  name: string;
  available: boolean;
  /** Why it is unavailable; empty when available. */
  reason: string;
  /** How to make it available; empty if that is not possible. */
  fix: string;
}

/** As in coral.runtime.v1.RuntimeContext. A newer agent may send names that are not in the lists above. */
export interface RuntimeFacts {
  platform: { os: string; arch: string; osVersion: string; kernel: string };
  runtimeType: string;
  /** Empty except for a Kubernetes sidecar. */
  sidecarMode: string;
  /** Null: no container runtime responds. */
  containerRuntime: { socketPath: string; type: string; version: string } | null;
  capabilities: CapabilityFact[];
  visibility: {
    allPids: boolean;
    allContainers: boolean;
    podScope: boolean;
    /** Possible targets of commands, if not everything is visible. */
    containers: string[];
    /** host, container, pod, node */
    namespace: string;
    /** Number of containers left out of `containers`. */
    moreContainers: number;
  };
  /** ISO 8601 in UTC. */
  detectedAt: string;
  /** Version of the agent. */
  version: string;
  /** Evidence for the runtime type and the mode, for people. */
  evidence: string[];
  /** Set by the agent's config, not detected. */
  isOverridden: boolean;
}

/** Registration reason with which a connected agent requests a pull: it has rows that a user is waiting for. */
export const pullReason = "services";

/** First protocol version with a runtime context; older agents are legacy. */
export const runtimeProtocolVersion = 2;

const commandsOf: Record<RuntimeType, readonly CapabilityName[]> = {
  native: ["connect", "exec", "shell", "run"],
  docker: ["connect", "exec", "shell", "run"],
  "k8s-sidecar": ["connect", "exec", "shell"],
  "k8s-daemonset": ["connect", "exec", "shell"],
};

/** Why an agent of this runtime type and mode can never do it, with the fix. Null if it may be possible, and for unknown types. */
export function impossibleBecause(name: string, runtimeType: string, sidecarMode: string): { reason: string; fix: string } | null {
  if (!isOneOf(runtimeTypes, runtimeType)) return null;
  if (!["connect", "exec", "shell", "run"].includes(name)) return null;
  if (runtimeType === "k8s-sidecar" && sidecarMode === "passive" && (name === "exec" || name === "shell"))
    return { reason: "passive mode - no CRI socket, no shared namespace", fix: passiveFix };
  if (commandsOf[runtimeType].includes(name as CapabilityName)) return null;
  return runtimeType === "k8s-sidecar"
    ? { reason: "sidecar is passive for launching", fix: "Deploy the program as a container of its own" }
    : { reason: "an agent of the node launches nothing", fix: "Deploy the program as a pod of its own" };
}

/** How to get a sidecar out of passive mode. */
export const passiveFix = "Mount CRI socket or enable shareProcessNamespace";

export function capabilityOf(runtime: Pick<RuntimeFacts, "capabilities">, name: string): CapabilityFact | undefined {
  return runtime.capabilities.find((capability) => capability.name === name);
}

const longLabels: Record<RuntimeType, string> = {
  native: "Native",
  docker: "Docker Container",
  "k8s-sidecar": "Kubernetes Sidecar",
  "k8s-daemonset": "Kubernetes DaemonSet",
};
const shortLabels: Record<RuntimeType, string> = {
  native: "Native",
  docker: "Container",
  "k8s-sidecar": "K8s Sidecar",
  "k8s-daemonset": "K8s DaemonSet",
};
const modeLabels: Record<SidecarMode, string> = { cri: "CRI", "shared-ns": "Shared NS", passive: "Passive" };

/** `Kubernetes Sidecar`; unknown names unchanged. */
export function runtimeLabel(runtimeType: string): string {
  return isOneOf(runtimeTypes, runtimeType) ? longLabels[runtimeType] : runtimeType;
}

/** `K8s Sidecar`, for tables. */
export function shortRuntimeLabel(runtimeType: string): string {
  return isOneOf(runtimeTypes, runtimeType) ? shortLabels[runtimeType] : runtimeType;
}

/** `CRI`, `Shared NS`, `Passive`; `Host NS` for a container that sees its host's processes; `-` for types without modes. */
export function modeLabel({
  runtimeType,
  sidecarMode,
  visibility,
}: Pick<RuntimeFacts, "runtimeType" | "sidecarMode" | "visibility">): string {
  if (isOneOf(sidecarModes, sidecarMode)) return modeLabels[sidecarMode];
  if (sidecarMode !== "") return sidecarMode;
  return runtimeType === "docker" && visibility.namespace === "host" ? "Host NS" : "-";
}

/** `Kubernetes Sidecar (Passive mode)`. */
export function runtimeWithMode(runtime: Pick<RuntimeFacts, "runtimeType" | "sidecarMode" | "visibility">): string {
  const mode = modeLabel(runtime);
  return mode === "-" ? runtimeLabel(runtime.runtimeType) : `${runtimeLabel(runtime.runtimeType)} (${mode} mode)`;
}

function isOneOf<Word extends string>(words: readonly Word[], text: string): text is Word {
  return (words as readonly string[]).includes(text);
}

/**
 * Inode of the initial pid namespace, PROC_PID_INIT_INO of <linux/proc_ns.h>, constant over all kernels. Every process on the host has a
 * pid in it.
 */
export const initialPidNamespace = 0xefff_fffc;

/** The changes in words; empty if nothing changed. */
export function describeRuntimeChanges(before: RuntimeFacts, after: RuntimeFacts): string[] {
  const runtimeOf = ({ containerRuntime }: RuntimeFacts): string =>
    containerRuntime === null ? "none" : `${containerRuntime.type} ${containerRuntime.version} at ${containerRuntime.socketPath}`;
  const pairs: [string, string, string][] = [
    ["runtime type", before.runtimeType, after.runtimeType],
    ["sidecar mode", before.sidecarMode || "none", after.sidecarMode || "none"],
    ["container runtime", runtimeOf(before), runtimeOf(after)],
    ["containers", before.visibility.containers.join(" ") || "none", after.visibility.containers.join(" ") || "none"],
    ["visibility", before.visibility.namespace, after.visibility.namespace],
    ["platform", Object.values(before.platform).join(" "), Object.values(after.platform).join(" ")],
    ["version", before.version, after.version],
  ];
  const names = new Set<string>([
    ...capabilityNames,
    ...before.capabilities.map(({ name }) => name),
    ...after.capabilities.map(({ name }) => name),
  ]);
  const can = ({ capabilities }: RuntimeFacts, name: string): string =>
    capabilities.find((fact) => fact.name === name)?.available === true ? "yes" : "no";
  for (const name of names) pairs.push([name, can(before, name), can(after, name)]);
  return pairs.filter(([, was, is]) => was !== is).map(([name, was, is]) => `${name} ${was} → ${is}`);
}
