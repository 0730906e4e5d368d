import { type AbilityName, type KernelAbility, probeKernelAbilities } from "../../bpf/index.ts";
import type { CapabilityFact } from "../../model/runtime-facts.ts";

export interface CapabilityReport {
  name: string;
  available: boolean;
  /** Reason and fix; empty when available. */
  reason: string;
}

export interface HostAbilities {
  /** Format for older colonies. */
  capabilities: CapabilityReport[];
  /** Kernel features, for the runtime context. */
  kernel: CapabilityFact[];
}

/** What Coral's BPF programs need; the others only appear in `coral doctor`. */
const neededAbilities: readonly AbilityName[] = ["ring_buffer", "raw_tp", "tp_btf", "perf_event"];

/** Probes the agent's capabilities on this host. */
export async function readCapabilities(): Promise<HostAbilities> {
  const abilities = await probeKernelAbilities();
  const ebpf = factOf("ebpf", abilities, neededAbilities);
  return {
    capabilities: [
      { name: "host", available: true, reason: "" },
      { name: "ebpf", available: ebpf.available, reason: [ebpf.reason, ebpf.fix].filter((text) => text !== "").join("; ") },
    ],
    kernel: [ebpf, factOf("profile", abilities, ["ring_buffer", "perf_event"]), factOf("debug", abilities, ["ring_buffer", "uprobe"])],
  };
}

function factOf(name: string, abilities: readonly KernelAbility[], needed: readonly AbilityName[]): CapabilityFact {
  const missing = abilities.find((ability) => !ability.available && needed.includes(ability.name));
  return { name, available: missing === undefined, reason: missing?.reason ?? "", fix: missing?.fix ?? "" };
}
