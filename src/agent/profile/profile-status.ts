import type { ProfileReadings } from "./profile-collector.ts";

const fix = "run the agent as root or with CAP_BPF and CAP_PERFMON; coral doctor shows what is missing";

/** The capability for a registration; reported as available while the program is loading. */
export function profileCapability({ isEnabled, status }: ProfileReadings): { name: string; available: boolean; reason: string } {
  const name = "cpu-profile";
  if (!isEnabled) return { name, available: false, reason: "profiles.enabled is false in the agent's config; set it to true" };
  const state = status?.state ?? null;
  if (state?.state !== "off") return { name, available: true, reason: "" };
  return { name, available: false, reason: `${state.problem ?? "the kernel refuses"}; ${fix}` };
}
