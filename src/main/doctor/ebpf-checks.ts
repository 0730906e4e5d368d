import { type BpfReport, probeBpf } from "../../bpf/index.ts";
import type { DoctorCheck } from "../../cli/index.ts";
import { ownPidNamespace, type PidNamespace } from "../../host/index.ts";

export async function checkEbpf(): Promise<DoctorCheck[]> {
  return [...describeBpf(await probeBpf()), describeScope(ownPidNamespace())];
}

/** Scope of an agent started here: the processes whose requests it would record. */
export function describeScope(namespace: PidNamespace | null): DoctorCheck {
  const base = { area: "ebpf", name: "scope" } as const;
  if (namespace === null || namespace.isFirst) return { ...base, state: "ok", detail: "whole host" };
  return {
    ...base,
    state: "degraded",
    detail: "own pid namespace, requests of other containers are not seen",
    fix: "to observe the whole host, set hostPID: true (Kubernetes) or --pid=host (Docker)",
  };
}

/** One check per prerequisite, then one per kernel ability. A missing prerequisite ends the list: the rest cannot be probed. */
export function describeBpf({ hasObjects, libbpfVersion, hasBtf, abilities }: BpfReport): DoctorCheck[] {
  if (!hasObjects) {
    const fix = 'install clang (apt-get install clang), then run "npm run setup"';
    return [{ area: "ebpf", name: "programs", state: "unavailable", detail: "the BPF objects are not built", fix }];
  }
  const programs: DoctorCheck = { area: "ebpf", name: "programs", state: "ok", detail: "built" };
  if (libbpfVersion === undefined) {
    const [first] = abilities;
    const detail = first?.reason ?? "libbpf.so.1 does not load";
    return [programs, { area: "ebpf", name: "libbpf", state: "unavailable", detail, fix: first?.fix ?? "apt-get install libbpf1" }];
  }
  const btf: DoctorCheck = hasBtf
    ? { area: "ebpf", name: "kernel types (BTF)", state: "ok", detail: "provided by the kernel" }
    : {
        area: "ebpf",
        name: "kernel types (BTF)",
        state: "unavailable",
        detail: "missing",
        fix: "use a kernel with CONFIG_DEBUG_INFO_BTF=y",
      };
  const library: DoctorCheck = { area: "ebpf", name: "libbpf", state: "ok", detail: libbpfVersion };
  const [first] = abilities;
  const isOneReason = first !== undefined && !first.available && abilities.every(({ reason }) => reason === first.reason);
  return [programs, library, btf, ...(isOneReason ? [{ ...describeAbility(first), name: "every hook" }] : abilities.map(describeAbility))];
}

function describeAbility({ name, available, needed, reason, fix }: BpfReport["abilities"][number]): DoctorCheck {
  if (available) return { area: "ebpf", name, state: "ok", detail: "attached and detached" };
  return { area: "ebpf", name, state: needed ? "unavailable" : "degraded", detail: reason, ...(fix === undefined ? {} : { fix }) };
}
