/** Text for runtimes, platforms and capabilities, shared by the agent pages. */

import { escapeText } from "../../../base/escape-text.ts";
import { type CapabilityFact, capabilityNames, modeLabel, type RuntimeFacts, runtimeLabel } from "../../../model/runtime-facts.ts";

/** U+2705, U+274C and U+26A0 with U+FE0F. Colours alone would not reach colour-blind readers or logs. */
export const yes = "✅";
export const no = "❌";
export const caution = "⚠️";

const osNames: Readonly<Record<string, string>> = { linux: "Linux", darwin: "macOS", windows: "Windows" };

/** `Linux (Ubuntu 22.04)`, `macOS 14.2`. */
export function platformText({ os, osVersion }: RuntimeFacts["platform"]): string {
  const name = osNames[os] ?? os;
  if (osVersion === "") return escapeText(name);
  return escapeText(osVersion.startsWith(name) ? osVersion : `${name} (${osVersion})`);
}

/** Systems on which `coral run` puts programs into containers. */
export function isForcedContainer({ platform, runtimeType }: Pick<RuntimeFacts, "platform" | "runtimeType">): boolean {
  return runtimeType === "native" && platform.os !== "linux";
}

/** `Kubernetes Sidecar (CRI mode)`, `Native`; PASSIVE in capitals, because such a sidecar cannot run commands. */
export function runtimeText(runtime: RuntimeFacts): string {
  const label = escapeText(runtimeLabel(runtime.runtimeType));
  const mode = escapeText(modeLabel(runtime));
  if (isForcedContainer(runtime)) return `${label} (forced container mode)`;
  if (mode === "-") return label;
  return mode === "Host NS" ? `${label} (Host NS)` : `${label} (${runtime.sidecarMode === "passive" ? "PASSIVE" : mode} mode)`;
}

const modeNotes: Readonly<Record<string, string>> = {
  cri: " (recommended)",
  "shared-ns": " (shareProcessNamespace)",
  passive: " (no CRI socket, no shared namespace)",
};

/** `CRI (recommended)`; null for runtimes without modes. */
export function modeText(runtime: RuntimeFacts): string | null {
  const mode = modeLabel(runtime);
  return mode === "-" ? null : `${escapeText(mode)}${modeNotes[runtime.sidecarMode] ?? ""}`;
}

const runtimeNames: Readonly<Record<string, string>> = { crio: "CRI-O", docker: "Docker", podman: "Podman" };

/** `containerd v1.7.0`. */
export function containerRuntimeText(found: NonNullable<RuntimeFacts["containerRuntime"]>): string {
  const name = escapeText(runtimeNames[found.type] ?? found.type);
  return found.version === "" ? name : `${name} v${escapeText(found.version)}`;
}

/** `Pod only`, `Host`, `Host (user processes only)`, `Node`, `Container only`. */
export function scopeText({ visibility, platform, runtimeType }: RuntimeFacts): string {
  if (visibility.podScope) return "Pod only";
  if (runtimeType === "k8s-daemonset") return visibility.allPids ? "Node" : "Node (containers only)";
  if (visibility.namespace === "container")
    return visibility.allContainers ? "Container, and all containers of the host" : "Container only";
  return visibility.allPids && platform.os === "linux" ? "Host" : "Host (user processes only)";
}

/** `[app, nginx]`, `All (via Docker)`, `(auto-discovered)`. */
export function containersText({ visibility, containerRuntime }: RuntimeFacts): string {
  const { containers, moreContainers, allContainers } = visibility;
  if (containers.length > 0) return `[${containers.map(escapeText).join(", ")}${moreContainers > 0 ? `, +${moreContainers}` : ""}]`;
  if (visibility.podScope) return "(auto-discovered)";
  if (!allContainers) return "None";
  return containerRuntime === null
    ? "All (by their processes)"
    : `All (via ${escapeText(runtimeNames[containerRuntime.type] ?? containerRuntime.type)})`;
}

/** `2024-03-15 10:23:45 UTC`. */
export function utcText(iso: string): string {
  const at = new Date(iso);
  return Number.isNaN(at.getTime()) ? escapeText(iso) : `${at.toISOString().slice(0, 19).replace("T", " ")} UTC`;
}

/** Display order; capabilities of newer agents come last. */
export function orderedCapabilities({ capabilities }: Pick<RuntimeFacts, "capabilities">): CapabilityFact[] {
  const known: readonly string[] = capabilityNames;
  const rank = (name: string): number => (known.includes(name) ? known.indexOf(name) : known.length);
  return capabilities.toSorted((a, b) => rank(a.name) - rank(b.name));
}

/** What the three commands reach, by runtime type. */
const where: Readonly<Record<string, { connect: string; exec: string; shell: string }>> = {
  native: {
    connect: "Monitor services of this host",
    exec: "Execute on this host and in its containers",
    shell: "Interactive shell on this host and in its containers",
  },
  docker: {
    connect: "Monitor services of this container",
    exec: "Execute in this container",
    shell: "Interactive shell in this container",
  },
  "k8s-sidecar": {
    connect: "Monitor containers in pod",
    exec: "Execute in target containers",
    shell: "Interactive shell in containers",
  },
  "k8s-daemonset": {
    connect: "Monitor pods of this node",
    exec: "Execute in pods of this node",
    shell: "Interactive shell in pods of this node",
  },
};

/** Capabilities whose purpose does not depend on the runtime. */
const purposes: Readonly<Record<string, string>> = {
  run: "Launch programs under this agent",
  ebpf: "Hooks in the kernel",
  profile: "CPU sampling for coral query profile",
  debug: "The kernel supports probes; no command uses them yet",
  capture: "Live requests of services",
  mesh: "Reached by the colony through a tunnel",
};

/** What a capability enables in this runtime. */
export function purposeText(name: string, { runtimeType }: Pick<RuntimeFacts, "runtimeType">): string {
  const here = where[runtimeType];
  if (here && (name === "connect" || name === "exec" || name === "shell")) return here[name];
  return purposes[name] ?? "";
}

const commands: ReadonlySet<string> = new Set(["connect", "exec", "shell", "run", "capture"]);

/** `coral exec` for capabilities that are commands. */
export function capabilityTitle(name: string): string {
  return commands.has(name) ? `coral ${name}` : escapeText(name);
}

/** How to give a passive sidecar access to the other containers of its pod. */
export const passiveAdvice: readonly string[] = [
  `${caution}  Limited functionality in passive mode`,
  "   To enable exec/shell, update pod spec:",
  "",
  "   Option 1 (Recommended): Mount CRI socket",
  "     volumes:",
  "       - name: cri-sock",
  "         hostPath:",
  "           path: /var/run/containerd/containerd.sock",
  "     volumeMounts:",
  "       - name: cri-sock",
  "         mountPath: /var/run/containerd/containerd.sock",
  "",
  "   Option 2: Enable shareProcessNamespace",
  "     spec:",
  "       shareProcessNamespace: true",
];
