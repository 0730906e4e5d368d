import { probeKernelAbilities } from "../probes/index.ts";

export interface CapabilityReport {
  name: string;
  available: boolean;
  /** Why not and what to do; empty when available. */
  reason: string;
}

/** What Coral's own programs attach to; the others are shown by `coral doctor` only. */
const neededAbilities: ReadonlySet<string> = new Set(["ring_buffer", "raw_tp", "tp_btf", "perf_event"]);

/** What this host lets the agent do, found by trying. */
export async function readCapabilities(): Promise<CapabilityReport[]> {
  const abilities = await probeKernelAbilities();
  const missing = abilities.find((ability) => !ability.available && neededAbilities.has(ability.name));
  const reason = missing?.available === false ? [missing.reason, missing.fix].filter((text) => text !== undefined).join("; ") : "";
  return [
    { name: "host", available: true, reason: "" },
    { name: "ebpf", available: missing === undefined, reason },
  ];
}
