/** Asks again about trials whose data were kept, at the times they were asked about, with the code of now: rules are changed without new faults. */

import { cpSync, rmSync } from "node:fs";
import { join } from "node:path";
import type { DiagnosisResult } from "../../../../src/tools/schemas/diagnosis.ts";
import { CoralHome } from "../../coral-process.ts";
import { namesOf, portsOf } from "../live-names.ts";
import { faultTrials } from "./fault-trials.ts";
import { KeptTrials } from "./kept-trials.ts";
import { type TrialResult, takeAnswer, takeControlAnswer } from "./watch-diagnosis.ts";

/** What databases said of themselves at that time is lost, and rows that came late are there: answers may differ a little from those given then. */
export async function replayTrials(
  folder: string,
  seed: number,
  { isWanted, shown, isLastOnly }: { isWanted: (one: { name: string }) => boolean; shown: (one: TrialResult) => void; isLastOnly: boolean },
): Promise<TrialResult[]> {
  const { results } = new KeptTrials(folder, seed);
  const world = { names: namesOf(seed), ports: portsOf(seed) };
  using home = new CoralHome();
  cpSync(join(folder, "home"), home.path, { recursive: true });
  rmSync(join(home.path, "run"), { recursive: true, force: true });
  await using _daemon = await home.start(["colony", "start", "--port", "0"], () => home.run("colony", "status"));
  const replayed: TrialResult[] = [];
  for (const trial of results.filter((one) => isWanted(one) && one.skipped === undefined)) {
    const again: TrialResult = { ...trial, detectedMs: null, accused: [], seen: "", askedMs: [], last: null };
    const fault = faultTrials.find(({ name }) => name === trial.name);
    for (const askedMs of isLastOnly ? trial.askedMs.slice(-1) : trial.askedMs) {
      const answer = JSON.parse(home.run("diagnose", "--at", new Date(askedMs).toISOString(), "--json")) as DiagnosisResult;
      if (fault !== undefined) takeAnswer(again, world, fault, { answer, askedMs });
      else takeControlAnswer(again, world, answer);
    }
    replayed.push(again);
    shown(again);
  }
  return replayed;
}
