import { CoralError } from "../../../base/errors.ts";
import type { PromqlSeriesFact } from "../../../model/metrics.ts";
import type { MetricResult } from "../../../tools/index.ts";
import { type Column, tableOf } from "../../output/table.ts";
import { connectColony } from "../../run/connection.ts";
import type { Invocation } from "../../run/invocation.ts";
import { showAnswer } from "../../run/show-answer.ts";
import { readInput } from "../read-input.ts";
import { course, plainNumber } from "./metric-text.ts";

/** `coral query promql <expression>`: one line per series. */
export async function run(invocation: Invocation): Promise<void> {
  const { args, options, print } = invocation;
  const given = args[0];
  const promql = given === undefined || given === "-" ? await readInput(invocation, "the PromQL expression") : given;
  if (promql.trim() === "")
    throw new CoralError({
      code: "usage",
      message: "Cannot evaluate an empty expression: try coral query promql 'sum by (service) (rate(requests[5m]))'",
    });
  const more = { agent: options.text("agent"), step: options.durationText("step"), limit: options.integer("limit", 1, 1_000) };
  const input = {
    promql,
    since: options.durationText("since") ?? "1h",
    points: print.width === undefined || print.width >= 100 ? 30 : 15,
    ...Object.fromEntries(Object.entries(more).filter(([, value]) => value !== undefined)),
  };
  const colony = await connectColony(invocation);
  await showAnswer(invocation, () => colony.call<MetricResult>("coral_query_metrics", input), {
    table: (answer) => tableOf(answer.series, columns),
  });
}

const columns: readonly Column<PromqlSeriesFact>[] = [
  { title: "SERIES", key: "labels", align: "left", cell: ({ labels }) => seriesText(labels) },
  {
    title: "NOW",
    key: "value",
    align: "right",
    cell: ({ points }) => nowOf(points, plainNumber),
    raw: ({ points }) => points.at(-1),
  },
  {
    title: "OVER TIME",
    key: "points",
    align: "left",
    cell: ({ points }) => course(points),
    raw: ({ points }) => points.map((point) => point ?? "").join(" "),
  },
];

function nowOf(points: readonly (number | null)[], text: (value: number) => string): string | null {
  const value = points.at(-1);
  return value === null || value === undefined ? null : text(value);
}

/** `requests{route="/a"}`; `{}` for a value without labels. */
function seriesText({ __name__: name = "", ...labels }: Record<string, string>): string {
  const pairs = Object.entries(labels)
    // It says the same as the service.
    .filter(([label, value]) => !(label === "job" && labels["service"] === value))
    .sort(([a], [b]) => (a < b ? -1 : 1))
    .map(([label, value]) => `${label}=${JSON.stringify(value)}`);
  return pairs.length === 0 && name !== "" ? name : `${name}{${pairs.join(", ")}}`;
}
