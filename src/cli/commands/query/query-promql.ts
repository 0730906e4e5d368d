import { CoralError } from "../../../base/errors.ts";
import type { PromqlSeriesFact } from "../../../model/metrics.ts";
import { type Column, tableOf } from "../../output/table.ts";
import type { Invocation } from "../../run/invocation.ts";
import { showTool } from "../../run/show-tool.ts";
import { textOrStdin } from "../read-input.ts";
import { plainNumber, pointsFor, trend } from "./metric-text.ts";

/** `coral query promql <expression>`: one line per series. */
export async function run(invocation: Invocation): Promise<void> {
  const { args, print } = invocation;
  const promql = await textOrStdin(invocation, args[0], "the PromQL expression");
  if (promql.trim() === "")
    throw new CoralError({
      code: "usage",
      message: "Cannot evaluate an empty expression: try coral query promql 'sum by (service) (rate(requests[5m]))'",
    });
  await showTool(
    invocation,
    "coral_query_metrics",
    { table: (answer) => tableOf(answer.series, columns) },
    { promql, points: pointsFor(print.width) },
  );
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
    cell: ({ points }) => trend(points),
    raw: ({ points }) => points.map((point) => point ?? "").join(" "),
  },
];

/** The newest point. Null at a stale marker, where Prometheus shows no value either. */
function nowOf(points: readonly (number | null)[], text: (value: number) => string): string | null {
  const value = points.at(-1);
  return value === null || value === undefined ? null : text(value);
}

/** `requests{route="/a"}`; `{}` for a value without labels. */
function seriesText({ __name__: name = "", ...labels }: Record<string, string>): string {
  const pairs = Object.entries(labels)
    // The label `job` repeats the service.
    .filter(([label, value]) => !(label === "job" && labels["service"] === value))
    .sort(([a], [b]) => (a < b ? -1 : 1))
    .map(([label, value]) => `${label}=${JSON.stringify(value)}`);
  return pairs.length === 0 && name !== "" ? name : `${name}{${pairs.join(", ")}}`;
}
