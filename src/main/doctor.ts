import { CoralError } from "../base/errors.ts";
import type { DoctorCheck } from "../cli/index.ts";
import { checkDaemons } from "./doctor/daemon-checks.ts";
import { checkEbpf } from "./doctor/ebpf-checks.ts";
import { checkHost } from "./doctor/host-checks.ts";
import { checkPorts } from "./doctor/port-checks.ts";
import { checkRuntime } from "./doctor/runtime-checks.ts";
import { checkStorage } from "./doctor/storage-checks.ts";

/** Checks that belong together; all groups run in parallel. */
interface CheckGroup {
  area: DoctorCheck["area"];
  name: string;
  run: (home: string) => Promise<DoctorCheck[]>;
}

const groups: readonly CheckGroup[] = [
  { area: "runtime", name: "runtime", run: checkRuntime },
  { area: "host", name: "host", run: checkHost },
  { area: "ebpf", name: "eBPF", run: checkEbpf },
  { area: "mesh", name: "ports", run: checkPorts },
  { area: "storage", name: "storage", run: checkStorage },
  { area: "daemons", name: "daemons", run: checkDaemons },
];

/** Checks what Coral can do on this host. Read-only. A group that throws becomes one failed check. */
export async function runDoctor(home: string): Promise<DoctorCheck[]> {
  const results = await Promise.all(groups.map((group) => group.run(home).catch((error: unknown) => [failedCheck(group, error)])));
  return results.flat();
}

function failedCheck({ area, name }: CheckGroup, error: unknown): DoctorCheck {
  return { area, name, state: "unavailable", detail: `cannot be checked: ${CoralError.from(error).message}` };
}
