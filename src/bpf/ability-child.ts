/**
 * The child process of `probeKernelAbilities()`: a fault in foreign code ends only this process. Arguments: the object file, then the abilities to
 * try. Prints one JSON line before and after each attempt, so that the parent knows which one was running when the process died.
 */

import { writeSync } from "node:fs";
import { CoralError } from "../base/errors.ts";
import { effectiveCapabilities } from "./capabilities.ts";
import { type AbilityOutcome, abilityNames } from "./kernel-ability.ts";
import { type Libbpf, loadLibbpf } from "./libbpf.ts";
import { tryAbility } from "./try-ability.ts";

/** Synchronous: a line must be out before the next call can crash. */
function print(message: Record<string, unknown>): void {
  writeSync(1, `${JSON.stringify(message)}\n`);
}

function run(objectPath: string, wanted: readonly string[]): void {
  let libbpf: Libbpf;
  try {
    libbpf = loadLibbpf();
  } catch (error) {
    print({ libraryMissing: CoralError.from(error).message });
    return;
  }
  const btf = libbpf.loadKernelBtf();
  if (btf !== null) libbpf.freeBtf(btf);
  print({ capabilities: effectiveCapabilities().toString(), hasBtf: btf !== null, libbpf: libbpf.versionString() });
  for (const name of abilityNames.filter((candidate) => wanted.includes(candidate))) {
    print({ begin: name });
    let outcome: AbilityOutcome;
    try {
      outcome = tryAbility(libbpf, objectPath, name);
    } catch (error) {
      // An attempt that cannot be made, such as with an unreadable executable, concerns this ability only.
      outcome = { stage: "not-run", message: CoralError.from(error).message };
    }
    print({ end: name, outcome });
  }
}

const [objectPath = "", ...wanted] = process.argv.slice(2);
run(objectPath, wanted);
// Exit at once: nothing is left to close, and the registered callback would keep the process alive.
process.exit(0);
