import { existsSync, readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { programsSkipReason } from "./has-program.ts";

const builtProbes = fileURLToPath(new URL("../../dist/probes/", import.meta.url));
const capBpf = 39n;

/** The BPF object that observes requests; CORAL_TEST_OBJECT selects another build. */
export const requestsObject = process.env["CORAL_TEST_OBJECT"] ?? `${builtProbes}requests.bpf.o`;

/** The reason why BPF programs cannot be loaded here, or which program the test lacks; undefined when the test can run. */
export function bpfSkipReason(...programs: readonly string[]): string | undefined {
  if (process.getuid?.() !== 0) return "needs root";
  const capabilities = BigInt(`0x${/^CapEff:\s*([0-9a-f]+)$/m.exec(readFileSync("/proc/self/status", "utf8"))?.[1] ?? "0"}`);
  if (((capabilities >> capBpf) & 1n) === 0n) return "root lacks CAP_BPF here";
  return programsSkipReason(...programs);
}

/** The same for tests of the BPF objects that `npm run setup` builds. */
export function probesSkipReason(...programs: readonly string[]): string | undefined {
  return existsSync(requestsObject) ? bpfSkipReason(...programs) : "the BPF objects are not built (no clang)";
}
