/** What this agent can do where it runs, each with the reason when not. */

import { type CapabilityFact, capabilityNames, impossibleBecause } from "../base/runtime-facts.ts";

export interface CapabilitySources {
  runtimeType: string;
  sidecarMode: string;
  /** ebpf, profile and debug, as the kernel was found to allow them. */
  kernel: readonly CapabilityFact[];
  /** Whether requests are read: what captures show. */
  capture: { available: boolean; reason: string; fix: string };
  /** What the agent's own config takes away: exec, shell, run. Absent: nothing. */
  refused?: Readonly<Record<string, { reason: string; fix: string } | undefined>>;
}

export function runtimeCapabilities(sources: CapabilitySources): CapabilityFact[] {
  return capabilityNames.map((name) => capabilityFact(name, sources));
}

function capabilityFact(name: string, { runtimeType, sidecarMode, kernel, capture, refused }: CapabilitySources): CapabilityFact {
  const absent = impossibleBecause(name, runtimeType, sidecarMode) ?? refused?.[name] ?? null;
  if (absent !== null) return { name, available: false, ...absent };
  if (name === "capture") return { name, ...capture };
  return (
    kernel.find((fact) => fact.name === name) ?? (isKernels(name) ? unknownKernel(name) : { name, available: true, reason: "", fix: "" })
  );
}

function isKernels(name: string): boolean {
  return name === "ebpf" || name === "profile" || name === "debug";
}

function unknownKernel(name: string): CapabilityFact {
  return { name, available: false, reason: "the kernel was not asked", fix: "run coral doctor on this host" };
}
