/** What a kernel may allow, and how a refusal is explained to users. Pure: the attempts are made in `try-ability.ts`. */

import { type CapabilityName, hasCapability } from "./capabilities.ts";

export const abilityNames = [
  "ring_buffer",
  "raw_tp",
  "sock_recv_length",
  "sock_send_length",
  "sk_data_ready",
  "inet_sock_set_state",
  "tp_btf",
  "tracepoint",
  "perf_event",
  "uprobe",
  "uprobe_multi",
  "kprobe",
  "fentry",
] as const;

/** A way of attaching a BPF program, a hook at which traffic is read, or the ring buffer for events. */
export type AbilityName = (typeof abilityNames)[number];

/** Whether this process can use an ability, as found by an actual attempt. */
export interface KernelAbility {
  name: AbilityName;
  /** Whether Coral's probes depend on it; the others are alternatives that some kernels offer. */
  needed: boolean;
  available: boolean;
  /** Why not; empty when available. */
  reason: string;
  /** How to fix it; absent if nothing can be done on this kernel. */
  fix?: string;
}

/** How far an attempt got. `errno` is positive; `log` is the output of libbpf. */
export type AbilityOutcome =
  | { stage: "attached" }
  | { stage: "object-missing" }
  | { stage: "library-missing"; message: string }
  | { stage: "not-run"; message: string }
  | { stage: "open" | "load" | "attach"; errno: number; log: string };

/** Facts about the process that made the attempt; they decide which capability is named. */
export interface AbilityFacts {
  /** Effective capability bits of the process. */
  capabilities: bigint;
  /** Whether the kernel has BTF. */
  hasBtf: boolean;
}

const EPERM = 1;
const ENOENT = 2;
const ESRCH = 3;
const EACCES = 13;
const EINVAL = 22;
const ENOSYS = 38;
const EOPNOTSUPP = 95;
/** Kernel-internal, but visible in user space when a program cannot be attached by trampoline. */
const ENOTSUPP = 524;

const neededAbilities: ReadonlySet<AbilityName> = new Set(["ring_buffer", "raw_tp", "tp_btf", "perf_event"]);
const needsBtf: ReadonlySet<AbilityName> = new Set(["tp_btf", "fentry"]);

const kernelOption: Readonly<Record<AbilityName, string>> = {
  ring_buffer: "Linux 5.8 or newer",
  raw_tp: "CONFIG_BPF_EVENTS",
  sock_recv_length: "Linux 6.3 or newer; traffic is read at system calls instead, which costs twice as much",
  sock_send_length: "Linux 6.3 or newer; traffic is read at system calls instead, which costs twice as much",
  sk_data_ready: "Linux 6.3 or newer; without it the queue time of requests is unknown",
  inet_sock_set_state: "CONFIG_INET; without it the end of connections is not seen",
  tp_btf: "CONFIG_DEBUG_INFO_BTF and CONFIG_BPF_EVENTS",
  tracepoint: "CONFIG_FTRACE_SYSCALLS",
  perf_event: "CONFIG_PERF_EVENTS",
  uprobe: "CONFIG_UPROBE_EVENTS",
  uprobe_multi: "CONFIG_UPROBES and Linux 6.6 or newer; without it TLS traffic cannot be read",
  kprobe: "CONFIG_KPROBE_EVENTS",
  fentry: "CONFIG_DYNAMIC_FTRACE_WITH_DIRECT_CALLS",
};

/** Turns the outcome of an attempt into what `coral doctor` prints. */
export function explainOutcome(name: AbilityName, outcome: AbilityOutcome, facts: AbilityFacts): KernelAbility {
  switch (outcome.stage) {
    case "attached":
      return { name, needed: neededAbilities.has(name), available: true, reason: "" };
    case "object-missing":
      return unavailable(name, "the BPF objects are not built", 'install clang (apt-get install clang), then run "npm run setup"');
    case "library-missing":
      return unavailable(name, `libbpf.so.1 does not load: ${outcome.message}`, "apt-get install libbpf1");
    case "not-run":
      return unavailable(name, outcome.message);
    default:
      return explainRefusal(name, outcome.stage, outcome.errno, outcome.log, facts);
  }
}

function unavailable(name: AbilityName, reason: string, fix?: string): KernelAbility {
  return { name, needed: neededAbilities.has(name), available: false, reason, ...(fix === undefined ? {} : { fix }) };
}

function explainRefusal(
  name: AbilityName,
  stage: "open" | "load" | "attach",
  errno: number,
  log: string,
  facts: AbilityFacts,
): KernelAbility {
  if (errno === EPERM || errno === EACCES) return explainDenial(name, facts);
  if (needsBtf.has(name) && !facts.hasBtf) {
    return unavailable(
      name,
      "the kernel has no type information (/sys/kernel/btf/vmlinux is missing)",
      "use a kernel with CONFIG_DEBUG_INFO_BTF=y",
    );
  }
  if (name === "tracepoint" && errno === ENOENT) {
    const reason = `tracefs is not mounted, or the kernel is built without ${kernelOption.tracepoint}`;
    return unavailable(name, reason, "mount -t tracefs tracefs /sys/kernel/tracing");
  }
  if ([ENOENT, ESRCH, EINVAL, ENOSYS, EOPNOTSUPP, ENOTSUPP].includes(errno)) {
    return unavailable(name, `the kernel cannot ${stage} it (errno ${errno}): that needs ${kernelOption[name]}`);
  }
  return unavailable(name, `cannot ${stage} it (errno ${errno})${lastLine(log)}`);
}

function explainDenial(name: AbilityName, facts: AbilityFacts): KernelAbility {
  const missing = missingCapabilities(name, facts.capabilities);
  if (missing.length === 0) {
    return unavailable(
      name,
      "the kernel refuses it although the process has the capabilities: its configuration, lockdown or a seccomp profile forbids it",
    );
  }
  const fix = `run as root, or give it these capabilities (systemd: AmbientCapabilities=${missing.join(" ")})`;
  return unavailable(name, `not permitted: this process lacks ${missing.join(" and ")}`, fix);
}

/**
 * CAP_SYS_ADMIN implies both others. Classic uprobes and kprobes, made through perf, require CAP_SYS_ADMIN itself; tracepoints are looked up in
 * tracefs, which only root can read.
 */
function missingCapabilities(name: AbilityName, capabilities: bigint): CapabilityName[] {
  if (hasCapability(capabilities, "CAP_SYS_ADMIN")) return [];
  const missing = (["CAP_BPF", "CAP_PERFMON"] as const).filter((capability) => !hasCapability(capabilities, capability));
  if (missing.length > 0) return missing;
  if (name === "uprobe" || name === "kprobe") return ["CAP_SYS_ADMIN"];
  return name === "tracepoint" ? ["CAP_DAC_READ_SEARCH"] : [];
}

function lastLine(log: string): string {
  const line = log.trim().split("\n").at(-1) ?? "";
  return line === "" ? "" : `: ${line}`;
}
