import { existsSync, readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { whyNoPrograms } from "./has-program.ts";

const builtProbes = fileURLToPath(new URL("../../dist/probes/", import.meta.url));
const capBpf = 39n;

/** The programs that watch requests; another build of them with CORAL_TEST_OBJECT. */
export const requestsObject = process.env["CORAL_TEST_OBJECT"] ?? `${builtProbes}requests.bpf.o`;

/** Why BPF programs cannot be loaded here, or the test lacks a program that it starts; undefined when it can run. */
export function whyNoBpf(...programs: readonly string[]): string | undefined {
  if (process.getuid?.() !== 0) return "needs root";
  const capabilities = BigInt(`0x${/^CapEff:\s*([0-9a-f]+)$/m.exec(readFileSync("/proc/self/status", "utf8"))?.[1] ?? "0"}`);
  if (((capabilities >> capBpf) & 1n) === 0n) return "root lacks CAP_BPF here";
  return whyNoPrograms(...programs);
}

/** The same for tests of the programs that the set-up has built. */
export function whyNoProbes(...programs: readonly string[]): string | undefined {
  return existsSync(requestsObject) ? whyNoBpf(...programs) : "the BPF objects are not built (no clang)";
}
