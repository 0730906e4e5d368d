/** What an agent says of its runtime against what its runtime type allows. An agent that claims more is not believed, and that is told. */

import { impossibleBecause, type RuntimeFacts, runtimeTypes, runtimeWithMode, sidecarModes } from "../../model/runtime-facts.ts";

export interface CheckedRuntime {
  /** With capabilities that cannot be taken away. */
  facts: RuntimeFacts;
  /** In words; empty when all fits together. */
  problems: string[];
}

export function checkRuntime(told: RuntimeFacts): CheckedRuntime {
  const problems = [...typeProblems(told), ...visibilityProblems(told)];
  const capabilities = told.capabilities.map((capability) => {
    const absent = capability.available ? impossibleBecause(capability.name, told.runtimeType, told.sidecarMode) : null;
    if (absent === null) return capability;
    problems.push(`claims ${capability.name}, which ${runtimeWithMode(told)} cannot do`);
    return { ...capability, available: false, reason: `claimed, but not believed: ${absent.reason}`, fix: absent.fix };
  });
  const names = capabilities.map(({ name }) => name);
  if (new Set(names).size !== names.length) problems.push("names a capability twice");
  return { facts: { ...told, capabilities }, problems };
}

function typeProblems({ runtimeType, sidecarMode, containerRuntime, capabilities }: RuntimeFacts): string[] {
  const problems: string[] = [];
  const isSidecar = runtimeType === "k8s-sidecar";
  // A newer agent may have a type that this colony does not know: nothing can be said of it then.
  if (!(runtimeTypes as readonly string[]).includes(runtimeType)) return runtimeType === "" ? ["names no runtime type"] : [];
  if (isSidecar && sidecarMode === "") problems.push("is a sidecar without a mode");
  if (!isSidecar && sidecarMode !== "") problems.push(`has the sidecar mode "${sidecarMode}" and is no sidecar`);
  if ((sidecarModes as readonly string[]).includes(sidecarMode)) {
    if (sidecarMode === "cri" && containerRuntime === null) problems.push("is in CRI mode without a container runtime");
    if (sidecarMode === "passive" && containerRuntime !== null) problems.push("is in passive mode beside a container runtime");
  }
  if (!capabilities.some(({ name, available }) => name === "connect" && available)) problems.push("cannot connect, and is connected");
  return problems;
}

function visibilityProblems({ runtimeType, visibility }: RuntimeFacts): string[] {
  const isSidecar = runtimeType === "k8s-sidecar";
  const problems: string[] = [];
  if (isSidecar && (visibility.allPids || visibility.allContainers || !visibility.podScope))
    problems.push("is a sidecar that sees beyond its pod");
  if (!isSidecar && visibility.podScope) problems.push("is limited to a pod and no sidecar");
  return problems;
}
