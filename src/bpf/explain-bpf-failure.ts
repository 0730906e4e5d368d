/** Explains to users why programs could not be loaded or attached. */

import { CoralError } from "../base/errors.ts";
import { effectiveCapabilities } from "./capabilities.ts";
import { type AbilityName, type AbilityOutcome, explainOutcome } from "./kernel-ability.ts";
import { loadLibbpf } from "./libbpf.ts";

export interface BpfFailure {
  /** `reason; fix`, as one sentence without its full stop. */
  text: string;
  /** False if a later retry may succeed, such as after a lack of memory. */
  isLasting: boolean;
}

const EAGAIN = 11;
const ENOMEM = 12;
const EINTR = 4;
const EBUSY = 16;
/** Marks the verifier's output in the log of libbpf. */
const verifierLog = /-- BEGIN PROG LOAD LOG --\n([\s\S]*?)-- END PROG LOAD LOG --/;

/** Explains an error of `loadBpfObject()` or its object; `ability` is the way of attaching that matters most. */
export function explainBpfFailure(error: unknown, ability: AbilityName): BpfFailure {
  const problem = CoralError.from(error);
  const { stage, errno, log } = problem.details as { stage?: "open" | "load" | "attach"; errno?: number; log?: string };
  if (problem.code === "unsupported" && stage === undefined)
    return inWords(ability, { stage: "library-missing", message: problem.message });
  if (stage === undefined || errno === undefined) return { text: problem.message, isLasting: false };
  if ([EAGAIN, ENOMEM, EINTR, EBUSY].includes(errno)) return { text: problem.message, isLasting: false };
  const said = verifierLog
    .exec(log ?? "")?.[1]
    ?.trim()
    .split("\n");
  const lastWord = said?.findLast((line) => line !== "" && !/^(?:processed|peak_states|verification time|stack depth)/.test(line));
  // Without the capability, the kernel refuses before the verifier runs.
  if (lastWord !== undefined) return { text: `the kernel's verifier rejects the programs: ${lastWord}`, isLasting: true };
  return inWords(ability, { stage, errno, log: log ?? "" });
}

function inWords(ability: AbilityName, outcome: AbilityOutcome): BpfFailure {
  const { reason, fix } = explainOutcome(ability, outcome, { capabilities: effectiveCapabilities(), hasBtf: hasKernelTypes(outcome) });
  return { text: fix === undefined ? reason : `${reason}; ${fix}`, isLasting: true };
}

function hasKernelTypes(outcome: AbilityOutcome): boolean {
  if (outcome.stage === "library-missing") return false;
  const libbpf = loadLibbpf();
  const btf = libbpf.loadKernelBtf();
  if (btf !== null) libbpf.freeBtf(btf);
  return btf !== null;
}
