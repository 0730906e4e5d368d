/**
 * Root causes of faults of real programs: `npm run bench:live -- [--seed 7] [--only "burns,index"] [--rounds 1] [--controls 1] [--minutes 9] [--keep folder]`. About
 * eleven programs under steady load, some of which send spans, are observed by a real `coral up`; `coral diagnose --json` runs during each fault.
 *
 * With --keep, several runs share data and results: each resumes where the previous one stopped and reports on all. --replay diagnoses what was
 * kept, at the same times, with the current code; --last only the latest of them.
 */

import { parseArgs } from "node:util";
import { replayTrials } from "./lib/live/diagnosis/replay-trials.ts";
import { describeTrial, runLiveDiagnosis, shown } from "./lib/live/diagnosis/run-live-diagnosis.ts";
import type { TrialResult } from "./lib/live/diagnosis/watch-diagnosis.ts";
import { type Figure, figureOf, isSmall, report, single } from "./lib/report.ts";

const { values } = parseArgs({
  options: {
    seed: { type: "string", default: "18" },
    only: { type: "string", default: "" },
    rounds: { type: "string", default: "1" },
    controls: { type: "string", default: "1" },
    "warm-up": { type: "string", default: isSmall ? "120" : "150" },
    rest: { type: "string", default: "45" },
    minutes: { type: "string", default: "90" },
    lock: { type: "string" },
    keep: { type: "string" },
    replay: { type: "boolean" },
    last: { type: "boolean", default: false },
  },
});

const only = values.only.split(",").filter((text) => text !== "");
const seed = Number(values.seed);
const run = values.replay
  ? { skipped: undefined, results: await replayed(values.keep) }
  : await runLiveDiagnosis({
      seed,
      only,
      rounds: { faults: Number(values.rounds), controls: Number(values.controls) },
      warmUpMs: Number(values["warm-up"]) * 1_000,
      restMs: Number(values.rest) * 1_000,
      maxMs: Number(values.minutes) * 60_000,
      lock: values.lock,
      keep: values.keep,
    });

function replayed(folder: string | undefined): Promise<TrialResult[]> {
  if (folder === undefined) throw new Error("Cannot replay: no data; give --keep with the folder of earlier runs");
  const isWanted = ({ name }: { name: string }): boolean => only.length === 0 || only.some((part) => name.includes(part));
  return replayTrials(folder, seed, { isWanted, shown, isLastOnly: values.last });
}

const tried = run.results.filter(({ skipped }) => skipped === undefined);
const counted = tried.filter(({ isControl, isMoved }) => !isControl && isMoved);
const controls = tried.filter(({ isControl }) => isControl);
const share = (name: string, count: number, least: number): Figure =>
  figureOf(name, "%", single((100 * count) / Math.max(1, counted.length)), { kind: "at-least", value: least });
const detected = counted.flatMap(({ detectedMs }) => (detectedMs === null ? [] : [detectedMs / 1_000]));

report({
  name: "live",
  sizes: { seed, faults: counted.length, controls: controls.length },
  figures: [
    share("right service first", counted.filter(({ isServiceRight }) => isServiceRight).length, 95),
    share("right kind", counted.filter(({ isKindRight }) => isKindRight).length, 85),
    share("right pointer", counted.filter(({ isPointerRight }) => isPointerRight).length, 85),
    ...(detected.length === 0 ? [] : [figureOf("detected after onset", "s", detected, { kind: "at-most", value: 30 } as const)]),
    figureOf(
      "faults in which a bystander was first for a while",
      "%",
      single((100 * counted.filter(({ accused }) => accused.length > 0).length) / Math.max(1, counted.length)),
      {
        kind: "at-most",
        value: 5,
      },
    ),
    figureOf("controls with a false accusation", "rows", single(controls.filter(({ accused }) => accused.length > 0).length), {
      kind: "at-most",
      value: Math.floor(controls.length / 50),
    }),
  ],
  notes: run.skipped === undefined ? run.results.map(describeTrial) : [`skipped: ${run.skipped}`],
});
