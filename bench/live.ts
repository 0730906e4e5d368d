/**
 * Root causes of faults of real programs: `npm run bench:live -- [--seed 7] [--only "burns,index"] [--rounds 1] [--warm-up 240] [--lock file] [--keep folder]`. About eleven
 * programs under steady load, some of which send spans, are observed by a real `coral up`; `coral diagnose --json` runs during each fault.
 */

import { parseArgs } from "node:util";
import { describeTrial, runLiveDiagnosis } from "./lib/live/diagnosis/run-live-diagnosis.ts";
import { type Figure, figureOf, isSmall, report, single } from "./lib/report.ts";

const { values } = parseArgs({
  options: {
    seed: { type: "string", default: "18" },
    only: { type: "string", default: "" },
    rounds: { type: "string", default: "1" },
    "warm-up": { type: "string", default: isSmall ? "200" : "300" },
    rest: { type: "string", default: "40" },
    lock: { type: "string" },
    keep: { type: "string" },
  },
});

const run = await runLiveDiagnosis({
  seed: Number(values.seed),
  only: values.only.split(",").filter((text) => text !== ""),
  rounds: Number(values.rounds),
  warmUpMs: Number(values["warm-up"]) * 1_000,
  restMs: Number(values.rest) * 1_000,
  lock: values.lock,
  keep: values.keep,
});

const counted = run.faults.filter(({ skipped, isMoved }) => skipped === undefined && isMoved);
const controls = run.controls.filter(({ skipped }) => skipped === undefined);
const share = (name: string, count: number, least: number): Figure =>
  figureOf(name, "%", single((100 * count) / Math.max(1, counted.length)), { kind: "at-least", value: least });
const detected = counted.flatMap(({ detectedMs }) => (detectedMs === null ? [] : [detectedMs / 1_000]));

report({
  name: "live",
  sizes: { seed: Number(values.seed), faults: counted.length, controls: controls.length },
  figures: [
    share("right service first", counted.filter(({ isServiceRight }) => isServiceRight).length, 95),
    share("right kind", counted.filter(({ isKindRight }) => isKindRight).length, 85),
    share("right pointer", counted.filter(({ isPointerRight }) => isPointerRight).length, 70),
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
  notes: run.skipped === undefined ? [...run.faults, ...run.controls].map(describeTrial) : [`skipped: ${run.skipped}`],
});
