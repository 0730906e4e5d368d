/**
 * Root causes of recorded incidents: `npm run bench:rca -- <folder> --out predictions.json [--truth truth.json] [--normal]`. Each case is loaded
 * into a colony's tables and diagnosed by the code of `coral diagnose`. With --normal, times before the incidents are diagnosed instead.
 */

import { readFileSync, writeFileSync } from "node:fs";
import { basename } from "node:path";
import { parseArgs } from "node:util";
import { queryDiagnosis } from "../src/store/queries/index.ts";
import { runDiagnosis } from "../src/tools/index.ts";
import { quietTimesOf, readSuites, timesOf } from "./lib/rca-cases.ts";
import { loadSuite } from "./lib/rca-colony.ts";
import { scoreText, type Truth } from "./lib/rca-score.ts";

interface Prediction {
  id: string;
  verdict: string;
  ranked: { service: string; kind: string; pointer: string; confidence: number }[];
  ms: number;
}

const { positionals, values } = parseArgs({
  allowPositionals: true,
  options: { out: { type: "string" }, truth: { type: "string" }, normal: { type: "boolean" }, suite: { type: "string" } },
});
const [folder] = positionals;
if (folder === undefined) console.log("bench:rca needs a folder of cases: npm run bench:rca -- <folder> --out predictions.json");
else await run(folder);

async function run(directory: string): Promise<void> {
  const predictions: Prediction[] = [];
  for (const suite of readSuites(directory)) {
    if (values.suite !== undefined && suite.name !== values.suite) continue;
    const startMs = performance.now();
    await using loaded = await loadSuite(suite);
    console.log(`${suite.name}: ${suite.cases.length} cases loaded in ${((performance.now() - startMs) / 1_000).toFixed(1)} s`);
    for (const [index, one] of suite.cases.entries()) {
      const times = values.normal ? quietTimesOf(one, index, loaded.series, loaded.shiftMs) : timesOf(one, loaded.series, loaded.shiftMs);
      if (times === null) continue;
      const askedMs = performance.now();
      const symptom = one.slo_metric === undefined ? null : /avail|success|err/i.test(one.slo_metric) ? "errors" : "latency";
      const { result } = await runDiagnosis({ ...times, isOnsetFound: false, isOver: false }, { service: one.entry, symptom }, (asked) =>
        queryDiagnosis(loaded.store, asked),
      );
      const ranked = result.causes.map(({ service, kind, pointer, confidence }) => ({ service, kind, pointer, confidence }));
      predictions.push({ id: one.id, verdict: result.verdict, ranked, ms: performance.now() - askedMs });
    }
  }
  if (values.out !== undefined) writeFileSync(values.out, `${JSON.stringify(predictions, null, 1)}\n`);
  const sorted = predictions.map(({ ms }) => ms).sort((a, b) => a - b);
  console.log(
    `${predictions.length} cases, median ${(sorted[sorted.length >> 1] ?? 0).toFixed(0)} ms, slowest ${(sorted.at(-1) ?? 0).toFixed(0)} ms`,
  );
  if (values.normal) {
    const quiet = predictions.filter(({ verdict }) => verdict === "no-issue").length;
    console.log(`no issue in ${quiet} of ${predictions.length} quiet windows`);
    for (const { id, ranked } of predictions)
      for (const { service, kind, pointer, confidence } of ranked.slice(0, 1))
        console.log(`  ${id}: ${service} ${kind} ${pointer} ${confidence}`);
  } else if (values.truth !== undefined) {
    console.log(scoreText(predictions, JSON.parse(readFileSync(values.truth, "utf8")) as Truth));
  } else if (basename(directory) !== "") console.log("give --truth <file> for scores");
}
