/** Checks an agent's reported runtime against what its runtime type allows. Impossible claims are rejected and reported. */

import { impossibleBecause, type RuntimeFacts, runtimeTypes, runtimeWithMode, sidecarModes } from "../../model/runtime-facts.ts";

export interface CheckedRuntime {
  /** Impossible capabilities are marked as unavailable. */
  facts: RuntimeFacts;
  /** Verb phrases, such as `is a sidecar without a mode`; empty when consistent. */
  problems: string[];
}

export function checkRuntime(reported: RuntimeFacts): CheckedRuntime {
  const problems = [...typeProblems(reported), ...visibilityProblems(reported)];
  const capabilities = reported.capabilities.map((capability) => {
    const absent = capability.available ? impossibleBecause(capability.name, reported.runtimeType, reported.sidecarMode) : null;
    if (absent === null) return capability;
    problems.push(`claims ${capability.name}, which ${runtimeWithMode(reported)} cannot do`);
    return { ...capability, available: false, reason: `claimed by the agent, but impossible: ${absent.reason}`, fix: absent.fix };
  });
  const names = capabilities.map(({ name }) => name);
  if (new Set(names).size !== names.length) problems.push("lists a capability twice");
  return { facts: { ...reported, capabilities }, problems };
}

function typeProblems({ runtimeType, sidecarMode, containerRuntime, capabilities }: RuntimeFacts): string[] {
  const problems: string[] = [];
  const isSidecar = runtimeType === "k8s-sidecar";
  // A newer agent may report a type that this colony does not know; it cannot be checked.
  if (!(runtimeTypes as readonly string[]).includes(runtimeType)) return runtimeType === "" ? ["reports no runtime type"] : [];
  if (isSidecar && sidecarMode === "") problems.push("is a sidecar without a mode");
  if (!isSidecar && sidecarMode !== "") problems.push(`has the sidecar mode "${sidecarMode}" but is not a sidecar`);
  if ((sidecarModes as readonly string[]).includes(sidecarMode)) {
    if (sidecarMode === "cri" && containerRuntime === null) problems.push("is in CRI mode without a container runtime");
    if (sidecarMode === "passive" && containerRuntime !== null) problems.push("is in passive mode but has a container runtime");
  }
  if (!capabilities.some(({ name, available }) => name === "connect" && available))
    problems.push("is connected but reports that it cannot connect");
  return problems;
}

function visibilityProblems({ runtimeType, visibility }: RuntimeFacts): string[] {
  const isSidecar = runtimeType === "k8s-sidecar";
  const problems: string[] = [];
  if (isSidecar && (visibility.allPids || visibility.allContainers || !visibility.podScope))
    problems.push("is a sidecar but sees beyond its pod");
  if (!isSidecar && visibility.podScope) problems.push("is limited to a pod but is not a sidecar");
  return problems;
}
