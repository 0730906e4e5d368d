import { readFileSync } from "node:fs";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { TestClock } from "../../store.fixture.ts";
import { openStoredHosts, type SignalRows, type StoredHosts } from "../stored-hosts.fixture.ts";
import { queryPromql } from "./query-promql.ts";

type Point = NonNullable<SignalRows["metricPoint"]>[number];

/** Results recorded from a real Prometheus by scripts/record-promql.mjs. */
interface Recorded {
  recordedWith: string;
  startS: number;
  stepS: number;
  queryStartS: number;
  queryEndS: number;
  queryStepS: number;
  series: { labels: Record<string, string>; values: (number | "NaN" | null)[] }[];
  /** One value per step; null where Prometheus rejected the expression. */
  cases: { expression: string; answer: { key: string; values: [number, string][] }[] | null }[];
}

const recorded = JSON.parse(readFileSync(new URL("prometheus-answers.json", import.meta.url), "utf8")) as Recorded;
const { startS, stepS, queryStartS, queryEndS, queryStepS } = recorded;
let hosts: StoredHosts;

function rowsOf({ labels, values }: Recorded["series"][number]): Point[] {
  const { __name__: name = "", agent: _agent, job: _job, service = "", ...attributes } = labels;
  return values.flatMap((value, index): Point[] => {
    if (value === null) return [];
    const text = JSON.stringify(attributes);
    const common = { service, name, series: `${name}${text}`, attributes: text, kind: "gauge", unit: "", is_monotonic: false } as const;
    return [{ ...common, atMs: (startS + index * stepS) * 1_000, ...(value === "NaN" ? { special: "nan", value: null } : { value }) }];
  });
}

beforeAll(async () => {
  hosts = await openStoredHosts(new TestClock());
  await hosts.add("a", { metricPoint: recorded.series.flatMap(rowsOf) });
});
afterAll(() => hosts[Symbol.asyncDispose]());

async function answer(expression: string): Promise<Record<string, (number | null)[]>> {
  const query = { expression, startMs: queryStartS * 1_000, endMs: queryEndS * 1_000, stepMs: queryStepS * 1_000, limit: 1_000 };
  const { rows } = await queryPromql(hosts.store, query);
  return Object.fromEntries(
    rows.map(({ labels, points }) => [JSON.stringify(Object.entries(labels).sort(([a], [b]) => (a < b ? -1 : 1))), points.map(shortened)]),
  );
}

/** Compares 9 digits: Prometheus adds in another order. */
const shortened = (value: number | null): number | null => (value === null ? null : Number(value.toPrecision(9)));

function wanted(answers: NonNullable<Recorded["cases"][number]["answer"]>): Record<string, (number | null)[]> {
  const steps = Math.floor((queryEndS - queryStartS) / queryStepS) + 1;
  return Object.fromEntries(
    answers.map(({ key, values }) => {
      const points = new Array<number | null>(steps).fill(null);
      // queryPromql() returns null for NaN and infinities.
      for (const [step, text] of values) points[step] = Number.isFinite(Number(text)) ? shortened(Number(text)) : null;
      return [key, points];
    }),
  );
}

describe(`queryPromql() returns the same as ${recorded.recordedWith}`, () => {
  it.each(recorded.cases)("$expression", async ({ expression, answer: answers }) => {
    if (answers === null) await expect(answer(expression)).rejects.toThrow("Cannot");
    else expect(await answer(expression)).toEqual(wanted(answers));
  });
});
