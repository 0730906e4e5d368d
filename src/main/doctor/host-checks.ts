import { missingCapabilities } from "../../bpf/index.ts";
import type { DoctorCheck } from "../../cli/index.ts";
import { type CgroupLayout, createHostReader, type HostSnapshot, type ListenerScan, readCgroupLayout } from "../../host/index.ts";

export async function checkHost(): Promise<DoctorCheck[]> {
  const reader = createHostReader();
  const machine = reader.machine();
  const missing = missingCapabilities(readerCapabilities);
  const [snapshot, listeners] = await Promise.all([reader.snapshot(), reader.listeners()]);
  return [
    { area: "host", name: "machine", state: "ok", detail: `${machine.os || "unknown system"}, kernel ${machine.kernel}, ${machine.arch}` },
    checkProcesses(listeners.deniedProcesses, snapshot.processes.processes.length, snapshot.processesHidden, missing),
    checkListeners(listeners, missing),
    checkCgroups(readCgroupLayout()),
    checkPressure(snapshot.pressure),
  ];
}

/** How to grant access to other users' processes. */
const readerCapabilities = ["CAP_SYS_PTRACE", "CAP_DAC_READ_SEARCH"] as const;

function grant(missing: readonly string[]): string {
  return `run as root, or give it ${missing.join(" and ")} (systemd: AmbientCapabilities=${missing.join(" ")})`;
}

export function checkProcesses(denied: number, seen: number, isHidden: boolean, missing: readonly string[]): DoctorCheck {
  const base = { area: "host", name: "processes" } as const;
  if (isHidden) {
    const detail = `${seen} seen; /proc is mounted with hidepid, so other users' processes are invisible`;
    return { ...base, state: "degraded", detail, fix: "run as root, or mount /proc with hidepid=0" };
  }
  if (denied === 0) return { ...base, state: "ok", detail: `${seen} seen, all readable` };
  // Protected processes are unreadable even for root: not a configuration problem.
  if (missing.length === 0)
    return { ...base, state: "ok", detail: `${seen} seen; ${denied} ${denied === 1 ? "is" : "are"} unreadable even for root` };
  const detail = `${seen} seen; executable, open files and sockets of ${denied} cannot be read: this process lacks ${missing.join(" and ")}`;
  return { ...base, state: "degraded", detail, fix: grant(missing) };
}

export function checkListeners({ listeners, withoutProcess }: ListenerScan, missing: readonly string[]): DoctorCheck {
  const base = { area: "host", name: "services" } as const;
  if (withoutProcess === 0) return { ...base, state: "ok", detail: `${listeners.length} listening sockets, all with their process` };
  const detail = `${withoutProcess} of ${listeners.length} listening sockets have no known process`;
  return missing.length === 0 ? { ...base, state: "ok", detail } : { ...base, state: "degraded", detail, fix: grant(missing) };
}

export function checkCgroups({ version, controllers }: CgroupLayout): DoctorCheck {
  const base = { area: "host", name: "cgroups" } as const;
  if (version === "none") {
    return {
      ...base,
      state: "degraded",
      detail: "none mounted: no usage per container or unit",
      fix: "mount -t cgroup2 cgroup2 /sys/fs/cgroup",
    };
  }
  const missing = ["cpuacct", "memory"].filter((controller) => !controllers.includes(controller));
  const detail = `${version}, with ${controllers.join(", ")}`;
  if (missing.length === 0) return { ...base, state: "ok", detail };
  return { ...base, state: "degraded", detail, fix: `enable the ${missing.join(" and ")} controller` };
}

export function checkPressure({ cpu, memory, io }: HostSnapshot["pressure"]): DoctorCheck {
  const base = { area: "host", name: "pressure (PSI)" } as const;
  if (cpu.someUs !== null && memory.someUs !== null && io.someUs !== null) return { ...base, state: "ok", detail: "cpu, memory and io" };
  return { ...base, state: "degraded", detail: "not provided by this kernel", fix: "boot with psi=1, on a kernel with CONFIG_PSI" };
}
