import { type CapabilityFact, capabilityNames, impossibleBecause, type RuntimeFacts } from "./runtime-facts.ts";

/** A native agent on Ubuntu with every capability; `change` overrides fields. */
export function sampleRuntime(change: Partial<RuntimeFacts> = {}): RuntimeFacts {
  const base: RuntimeFacts = {
    platform: { os: "linux", arch: "amd64", osVersion: "Ubuntu 22.04", kernel: "6.5.0-35-generic" },
    runtimeType: "native",
    sidecarMode: "",
    containerRuntime: null,
    capabilities: [],
    visibility: { allPids: true, allContainers: true, podScope: false, containers: [], namespace: "host", moreContainers: 0 },
    detectedAt: "2024-03-15T10:23:45.000Z",
    version: "0.1.0",
    evidence: [],
    isOverridden: false,
    ...change,
  };
  return { ...base, capabilities: change.capabilities ?? possibleCapabilities(base.runtimeType, base.sidecarMode) };
}

/** A Kubernetes sidecar in a given mode, as it reports itself. */
export function sampleSidecar(sidecarMode: string, change: Partial<RuntimeFacts> = {}): RuntimeFacts {
  const containers = sidecarMode === "passive" ? [] : ["app", "nginx"];
  return sampleRuntime({
    runtimeType: "k8s-sidecar",
    sidecarMode,
    containerRuntime:
      sidecarMode === "cri" ? { socketPath: "/var/run/containerd/containerd.sock", type: "containerd", version: "1.7.0" } : null,
    visibility: { allPids: false, allContainers: false, podScope: true, containers, namespace: "pod", moreContainers: 0 },
    ...change,
  });
}

export function possibleCapabilities(runtimeType: string, sidecarMode: string): CapabilityFact[] {
  return capabilityNames.map((name) => {
    const absent = impossibleBecause(name, runtimeType, sidecarMode);
    return absent === null ? { name, available: true, reason: "", fix: "" } : { name, available: false, ...absent };
  });
}
