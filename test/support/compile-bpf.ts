import { execFileSync } from "node:child_process";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";

const probes = fileURLToPath(new URL("../../probes", import.meta.url));

/** Compiles a test's BPF program against the headers in probes/ and returns the object's path. Needs clang. */
export function compileBpf(directory: string, name: string, source: string): string {
  const sourcePath = join(directory, `${name}.bpf.c`);
  const objectPath = join(directory, `${name}.bpf.o`);
  writeFileSync(sourcePath, `#include "core/bpf.h"\nchar LICENSE[] SEC("license") = "Dual BSD/GPL";\n${source}`);
  execFileSync("clang", ["-O2", "-g", "-target", "bpf", "-mcpu=v3", `-I${probes}`, "-c", sourcePath, "-o", objectPath], { stdio: "pipe" });
  return objectPath;
}
