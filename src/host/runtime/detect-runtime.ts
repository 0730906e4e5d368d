/** Detects the agent's runtime context: type, sidecar mode, container runtime and visibility. Uses facts, never the pod's name. */

import { CoralError } from "../../base/errors.ts";
import { type RuntimeType, runtimeTypes, type SidecarMode, sidecarModes } from "../../model/runtime-facts.ts";
import { createHostRoot, type HostRoot } from "../files/host-root.ts";
import type { PodFacts } from "./cri-client.ts";
import { type FoundRuntime, findRuntime } from "./find-runtime.ts";
import { type OwnPlace, readOwnPlace } from "./own-place.ts";
import { listProcessContainers } from "./process-containers.ts";
import { nodeOsFacts, type OsFacts, type PlatformFacts, readPlatform } from "./read-platform.ts";

/** Owner of the agent's own pod, from the cluster's API. */
export interface PodOwner {
  /** `DaemonSet`, `ReplicaSet` ...; empty for a pod without an owner. */
  kind: string;
  name: string;
}

export interface DetectRuntimeOptions {
  /** Default: the machine's `/`. */
  root?: HostRoot;
  env: Readonly<Record<string, string | undefined>>;
  os?: OsFacts;
  uid?: number;
  /** Empty: detect it. */
  override: { runtimeType: string; sidecarMode: string };
  /** Names of containers that a sidecar may target; empty: all of its pod. */
  targets: readonly string[];
  /** Null if the cluster cannot be queried. */
  podOwner?: (pod: { name: string; namespace: string }, signal: AbortSignal) => Promise<PodOwner | null>;
  signal: AbortSignal;
}

export interface DetectedRuntime {
  platform: PlatformFacts;
  runtimeType: RuntimeType;
  /** Empty except for a sidecar. */
  sidecarMode: SidecarMode | "";
  containerRuntime: FoundRuntime | null;
  visibility: {
    allPids: boolean;
    allContainers: boolean;
    podScope: boolean;
    containers: string[];
    namespace: "host" | "container" | "pod" | "node";
    moreContainers: number;
  };
  evidence: string[];
  isOverridden: boolean;
  /** May enter the namespaces of other containers' processes. */
  entersNamespaces: boolean;
  /** Messages about container runtimes that exist but cannot be used. */
  problems: string[];
}

/** Set by the controller of a DaemonSet on each of its pods, and by no other. */
const daemonSetLabel = "pod-template-generation";
const maxContainers = 64;

/** Never rejects unless aborted. */
export async function detectRuntime(options: DetectRuntimeOptions): Promise<DetectedRuntime> {
  const { root = createHostRoot(), env, signal, override } = options;
  const os = options.os ?? nodeOsFacts();
  const place = readOwnPlace(root, env);
  const { runtime, problems } = await findRuntime(root, env, signal);
  const evidence = [...place.evidence];
  const pods = await ownPods(root, place, runtime, problems, signal);
  const runtimeType = word(runtimeTypes, override.runtimeType) ?? (await findType(options, place, pods, evidence));
  const sidecarMode = runtimeType === "k8s-sidecar" ? (word(sidecarModes, override.sidecarMode) ?? findMode(place, runtime)) : "";
  const isOverridden = override.runtimeType !== "" || override.sidecarMode !== "";
  if (isOverridden) evidence.push("runtime.override of the agent's config");
  const visibility = await readVisibility({ ...options, root }, { place, runtime, runtimeType, sidecarMode, problems });
  return {
    platform: readPlatform(root, os),
    runtimeType,
    sidecarMode,
    containerRuntime: runtime,
    visibility,
    evidence,
    isOverridden,
    entersNamespaces: place.entersNamespaces,
    problems,
  };
}

function word<Word extends string>(words: readonly Word[], text: string): Word | undefined {
  return words.find((candidate) => candidate === text);
}

/** The agent's own pod, from the runtime. */
async function ownPods(
  root: HostRoot,
  place: OwnPlace,
  runtime: FoundRuntime | null,
  problems: string[],
  signal: AbortSignal,
): Promise<PodFacts[]> {
  if (runtime?.api !== "cri" || place.pod === null || place.pod.uid === "") return [];
  try {
    const { openCriClient } = await import("./cri-client.ts");
    using client = openCriClient(root.resolve(runtime.socketPath));
    return await client.pods({ uid: place.pod.uid }, signal);
  } catch (error) {
    signal.throwIfAborted();
    // It reported its version a moment ago; the other facts decide then.
    problems.push(CoralError.from(error).message);
    return [];
  }
}

async function findType(
  options: DetectRuntimeOptions,
  place: OwnPlace,
  pods: readonly PodFacts[],
  evidence: string[],
): Promise<RuntimeType> {
  if (place.pod === null) return place.isContainer ? "docker" : "native";
  const { podOwner, signal } = options;
  const owner = place.pod.name === "" ? null : ((await podOwner?.(place.pod, signal)) ?? null);
  if (owner !== null) {
    evidence.push(owner.kind === "" ? "the pod has no owner" : `owner ${owner.kind}/${owner.name}`);
    return owner.kind === "DaemonSet" ? "k8s-daemonset" : "k8s-sidecar";
  }
  if (place.pod.labels.has(daemonSetLabel) || pods.some((pod) => pod.labels[daemonSetLabel] !== undefined)) {
    evidence.push(`label ${daemonSetLabel}`);
    return "k8s-daemonset";
  }
  // In practice only a node's agent sees the processes of the whole machine, never a sidecar.
  return place.isHostPid ? "k8s-daemonset" : "k8s-sidecar";
}

function findMode(place: OwnPlace, runtime: FoundRuntime | null): SidecarMode {
  if (runtime !== null) return "cri";
  return place.isSharedPid || place.isHostPid ? "shared-ns" : "passive";
}

interface Found {
  place: OwnPlace;
  runtime: FoundRuntime | null;
  runtimeType: RuntimeType;
  sidecarMode: SidecarMode | "";
  problems: string[];
}

async function readVisibility(options: DetectRuntimeOptions & { root: HostRoot }, found: Found): Promise<DetectedRuntime["visibility"]> {
  const { place, runtime, runtimeType } = found;
  const allPids = place.isHostPid && !(place.hidesProcesses && (options.uid ?? process.getuid?.()) !== 0);
  const base = { allPids, podScope: false, containers: [], moreContainers: 0 };
  switch (runtimeType) {
    case "native":
      return { ...base, allContainers: runtime !== null || allPids, namespace: "host" };
    case "docker":
      return { ...base, allContainers: runtime !== null || allPids, namespace: place.isHostPid ? "host" : "container" };
    case "k8s-daemonset":
      return { ...base, allContainers: runtime !== null || allPids, namespace: "node" };
    case "k8s-sidecar": {
      const names = await targetNames(options, found);
      const containers = names.slice(0, maxContainers);
      return {
        allPids: false,
        allContainers: false,
        podScope: true,
        containers,
        namespace: "pod",
        moreContainers: names.length - containers.length,
      };
    }
  }
}

/** Containers of the pod besides the agent's own; the configured ones if they cannot be listed. */
async function targetNames({ root, targets, signal }: DetectRuntimeOptions & { root: HostRoot }, found: Found): Promise<string[]> {
  if (found.sidecarMode === "passive") return [];
  const wanted = (names: readonly string[]): string[] =>
    [...new Set(names)].filter((name) => targets.length === 0 || targets.includes(name)).sort();
  const { place, runtime } = found;
  try {
    if (runtime === null)
      return wanted(
        listProcessContainers(root, place)
          .filter(({ isOwn }) => !isOwn)
          .map(({ name, id }) => name || id.slice(0, 12)),
      );
    const { listRuntimeContainers } = await import("./runtime-containers.ts");
    const containers = await listRuntimeContainers({ root, place, runtime, podScope: true }, signal);
    return wanted(containers.filter(({ isOwn, isRunning }) => isRunning && !isOwn).map(({ name, id }) => name || id.slice(0, 12)));
  } catch (error) {
    signal.throwIfAborted();
    // The runtime is authoritative; the config is the fallback.
    found.problems.push(CoralError.from(error).message);
    return [...targets];
  }
}
