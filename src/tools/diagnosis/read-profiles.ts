/** Refines CPU causes with profiles: names the function whose CPU time grew. */

import { CoralError } from "../../base/errors.ts";
import { type Diagnosis, judgeProfiles, profileCandidates } from "../../diagnosis/index.ts";
import type { HotFunctions, ProfileTime } from "../../model/profiles.ts";
import type { ColonyBackend } from "../contract/backend.ts";
import type { ToolCallContext } from "../contract/define-tool.ts";
import type { CompletenessNote } from "../schemas/completeness.ts";
import type { DiagnosedTimes } from "./diagnosis-times.ts";

interface ProfilesRead {
  diagnosis: Diagnosis;
  notes: CompletenessNote[];
}

const functionsRead = 40;

export async function readProfiles(
  backend: ColonyBackend,
  diagnosis: Diagnosis,
  { before, after }: DiagnosedTimes,
  context: ToolCallContext,
): Promise<ProfilesRead> {
  const usual = longestOf(before);
  const services = profileCandidates(diagnosis);
  if (usual === null || services.length === 0) return { diagnosis, notes: [] };
  const notes: CompletenessNote[] = [];
  const profiles = new Map<string, HotFunctions>();
  for (const service of services) {
    try {
      profiles.set(service, await backend.hotFunctions({ service, now: after, before: usual, limit: functionsRead }, context));
    } catch (error) {
      context.signal.throwIfAborted();
      // The cause is valid without the function, so a failure becomes a note.
      notes.push({ kind: "no-data", message: `CPU samples of ${service} were not read: ${CoralError.from(error).message}` });
    }
  }
  return { diagnosis: judgeProfiles(diagnosis, profiles), notes };
}

/** Profiles are compared with one contiguous range. */
function longestOf(ranges: readonly ProfileTime[]): ProfileTime | null {
  const lengthOf = ({ fromMs, untilMs }: ProfileTime): number => untilMs - fromMs;
  return ranges.reduce<ProfileTime | null>((longest, one) => (longest && lengthOf(longest) >= lengthOf(one) ? longest : one), null);
}
