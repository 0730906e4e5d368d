// `node scripts/record-promql.mjs`: evaluates the expressions of src/store/queries/promql/prometheus-answers.json with Prometheus
// (Debian package `prometheus`) over the series in that file, and writes the answers there. Run it after adding an expression.
import { spawn, spawnSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { root } from "./lib/run.mjs";

/**
 * @typedef {{ labels: Record<string, string>, values: (number | string | null)[] }} Series
 * @typedef {{ startS: number, stepS: number, queryStartS: number, queryEndS: number, queryStepS: number }} Times
 * @typedef {{ recordedWith: string, series: Series[], cases: { expression: string, answer?: unknown }[] } & Times} Recorded
 * @typedef {{ metric: Record<string, string>, values: [number, string][] }} Result
 * @typedef {{ status: string, error?: string, data: { version?: string, result?: Result[] } }} Answer
 */

const file = join(root, "src/store/queries/promql/prometheus-answers.json");
const recorded = /** @type {Recorded} */ (JSON.parse(readFileSync(file, "utf8")));
const { startS, stepS, series, queryStartS, queryEndS, queryStepS } = recorded;
const directory = mkdtempSync(join(tmpdir(), "coral-promql-"));
const port = 20_000 + (process.pid % 20_000);

const lines = series.flatMap(({ labels, values }) => {
  const { __name__: name, ...rest } = labels;
  const text = Object.entries(rest)
    .map(([label, value]) => `${label}=${JSON.stringify(value)}`)
    .join(",");
  return values.flatMap((value, index) => (value === null ? [] : [`${name}{${text}} ${value} ${startS + index * stepS}`]));
});
const names = new Set(series.map(({ labels }) => labels["__name__"]));
// OpenMetrics requires the samples of one name to be consecutive.
const text = [...names].flatMap((name) => [`# TYPE ${name} unknown`, ...lines.filter((line) => line.startsWith(`${name}{`))]);
writeFileSync(join(directory, "metrics.txt"), `${text.join("\n")}\n# EOF\n`);
writeFileSync(join(directory, "prometheus.yml"), "global: {evaluation_interval: 1m}\n");
const made = spawnSync("promtool", ["tsdb", "create-blocks-from", "openmetrics", join(directory, "metrics.txt"), join(directory, "data")]);
if (made.status !== 0) throw new Error(`Cannot create blocks: ${made.stderr}`);
const server = spawn(
  "prometheus",
  [
    `--config.file=${join(directory, "prometheus.yml")}`,
    `--storage.tsdb.path=${join(directory, "data")}`,
    "--storage.tsdb.retention.time=100y",
    `--web.listen-address=127.0.0.1:${port}`,
  ],
  { stdio: "ignore" },
);
/**
 * @param {string} path
 * @param {Record<string, string>} parameters
 */
const get = async (path, parameters = {}) =>
  /** @type {Answer} */ (await (await fetch(`http://127.0.0.1:${port}${path}?${new URLSearchParams(parameters)}`)).json());

try {
  const endMs = Date.now() + 60_000;
  while (Date.now() < endMs && !(await fetch(`http://127.0.0.1:${port}/-/ready`).catch(() => undefined))?.ok)
    await new Promise((resolve) => setTimeout(resolve, 200));
  recorded.recordedWith = `Prometheus ${(await get("/api/v1/status/buildinfo")).data.version}`;
  for (const one of recorded.cases) {
    const { status, data, error } = await get("/api/v1/query_range", {
      // The name before Prometheus 3.
      query: one.expression.replace("double_exponential_smoothing", "holt_winters"),
      start: String(queryStartS),
      end: String(queryEndS),
      step: String(queryStepS),
    });
    one.answer = status === "success" ? (data.result ?? []).map(answerOf).sort((a, b) => (a.key < b.key ? -1 : 1)) : null;
    if (status !== "success") process.stderr.write(`${one.expression}: ${error}\n`);
  }
  writeFileSync(file, written(recorded));
} finally {
  server.kill();
  rmSync(directory, { recursive: true, force: true });
}

/**
 * Numbers as texts: JSON has no NaN.
 * @param {Result} result
 */
function answerOf({ metric, values }) {
  const key = JSON.stringify(Object.entries(metric).sort(([a], [b]) => (a < b ? -1 : 1)));
  return { key, values: values.map(([time, value]) => [Math.round((time - queryStartS) / queryStepS), value]) };
}

/**
 * One line per series and expression, so that a change reads well.
 * @param {Recorded} recorded
 */
function written({ series: all, cases, ...rest }) {
  /** @param {unknown} value */
  const line = (value) => `    ${JSON.stringify(value)}`;
  const head = JSON.stringify(rest, null, 2).slice(0, -2);
  return `${head},\n  "series": [\n${all.map(line).join(",\n")}\n  ],\n  "cases": [\n${cases.map(line).join(",\n")}\n  ]\n}\n`;
}
