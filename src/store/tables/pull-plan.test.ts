import { expect, test } from "vitest";
import { batchFromRows, storedColumns } from "../columns/column-batch.ts";
import { encodeBatch } from "../columns/column-codec.ts";
import { sample, sampleRows } from "../store.fixture.ts";
import type { LossCount } from "./loss-counts.ts";
import { type AgentPull, type PullPlan, planPull, type Source } from "./pull-plan.ts";
import type { SignalSlice } from "./signal-slice.ts";

const columnsOf = new Map([["sample", storedColumns(sample)]]);

const source = (cursors: Record<string, [number, number]> = {}, losses: Record<string, number> = {}): Source => ({
  ...{ source: 1, agentId: "a", epoch: "e" },
  cursors: new Map(Object.entries(cursors).map(([signal, [seq, nextSeq]]) => [signal, { seq, nextSeq }])),
  losses: new Map(Object.entries(losses)),
});

function slice(oldestSeq: number, nextSeq: number, first?: number, last?: number): SignalSlice {
  const empty = { signal: "sample", oldestSeq, nextSeq };
  if (first === undefined || last === undefined) return empty;
  return {
    ...empty,
    batch: encodeBatch(
      batchFromRows(
        sample,
        sampleRows(last - first + 1, () => 1, first),
      ),
      first,
    ),
  };
}

const plan = (known: Source, slices: SignalSlice[], losses: LossCount[] = [], replaced?: Source): PullPlan => {
  const pull: AgentPull = { agentId: "a", epoch: known.epoch, slices, losses };
  return planPull(pull, known, replaced, columnsOf);
};

/** Stored rows as [first, last], then the cursor, then gaps as [reason, first, last]. */
function outcome({ rows, source: { cursors }, gaps }: PullPlan): unknown[] {
  const stored = rows.map(({ firstSeq, batch }) => [firstSeq, firstSeq + batch.rows - 1]);
  return [stored, cursors.get("sample")?.seq, gaps.map(({ reason, firstSeq, lastSeq }) => [reason, firstSeq, lastSeq])];
}

test.for<[string, Source, SignalSlice, unknown[]]>([
  ["nothing new", source({ sample: [5, 6] }), slice(1, 6), [[], 5, []]],
  ["a first pull", source(), slice(1, 11, 1, 10), [[[1, 10]], 10, []]],
  ["the next rows", source({ sample: [10, 11] }), slice(1, 21, 11, 20), [[[11, 20]], 20, []]],
  ["the same response again", source({ sample: [20, 21] }), slice(1, 21, 11, 20), [[], 20, []]],
  ["an older response", source({ sample: [20, 21] }), slice(1, 11, 1, 10), [[], 20, []]],
  ["an overlap", source({ sample: [13, 21] }), slice(1, 21, 11, 20), [[[14, 20]], 20, []]],
  ["rows pruned before they were pulled", source({ sample: [10, 11] }), slice(16, 21, 16, 20), [[[16, 20]], 20, [["pruned", 11, 15]]]],
  ["all rows pruned", source({ sample: [10, 11] }), slice(21, 21), [[], 20, [["pruned", 11, 20]]]],
  ["rows pruned before the first pull", source(), slice(5, 7, 5, 6), [[[5, 6]], 6, [["before-first-pull", 1, 4]]]],
  ["rows pruned while the response was built", source({ sample: [10, 11] }), slice(18, 21, 11, 20), [[[11, 20]], 20, []]],
  ["rows after a missing one", source({ sample: [10, 40] }), slice(1, 41, 31, 40), [[], 10, []]],
])("planPull() with %s", ([, known, answer, wanted]) => {
  expect(outcome(plan(known, [answer]))).toEqual(wanted);
});

test("planPull() keeps the right rows of an overlap", () => {
  const { rows } = plan(source({ sample: [13, 21] }), [slice(1, 21, 11, 20)]);
  const amounts = rows[0]?.batch.columns.find(({ name }) => name === "amount");
  expect(amounts?.kind === "fixed" && Number(Buffer.from(amounts.values).readBigInt64LE(0))).toBe(14 - 5);
});

test("planPull() skips rows of times that are not kept, and counts them as pulled", () => {
  const rows = sampleRows(10, (index) => index * 1_000, 1);
  const answer: SignalSlice = { signal: "sample", oldestSeq: 1, nextSeq: 11, batch: encodeBatch(batchFromRows(sample, rows), 1) };
  const kept = new Map([["sample", (timeMs: number) => timeMs < 3 || (timeMs >= 5 && timeMs <= 8)]]);
  const planned = planPull({ agentId: "a", epoch: "e", slices: [answer], losses: [], kept }, source(), undefined, columnsOf);
  expect(outcome(planned)).toEqual([
    [
      [1, 2],
      [5, 8],
    ],
    10,
    [],
  ]);
  const amounts = planned.rows[1]?.batch.columns.find(({ name }) => name === "amount");
  expect(amounts?.kind === "fixed" && Number(Buffer.from(amounts.values).readBigInt64LE(0))).toBe(5 - 5);
});

test("planPull() ignores unknown signals", () => {
  expect(plan(source(), [{ ...slice(1, 11, 1, 10), signal: "later" }]).rows).toEqual([]);
});

test("planPull() records a changed epoch with the rows known to be lost", () => {
  const before: Source = { ...source({ sample: [10, 16], other: [3, 4] }), epoch: "old" };
  const { gaps } = plan({ ...source(), source: 2, epoch: "new" }, [slice(1, 3, 1, 2)], [], before);
  expect(gaps).toEqual([
    { agentId: "a", epoch: "old", signal: "*", reason: "epoch-changed", rows: null, firstSeq: null, lastSeq: null },
    { agentId: "a", epoch: "old", signal: "sample", reason: "epoch-changed", rows: 5, firstSeq: 11, lastSeq: 15 },
  ]);
});

test("planPull() turns growing loss counts into gaps, once", () => {
  const losses = [{ signal: "sample", reason: "disk-full", rows: 30 }];
  const first = plan(source({}, { "sample disk-full": 10 }), [], losses);
  expect(first.gaps).toMatchObject([{ signal: "sample", reason: "disk-full", rows: 20 }]);
  expect(plan(first.source, [], losses).gaps).toEqual([]);
  expect(plan(first.source, [], [{ signal: "sample", reason: "disk-full", rows: 5 }]).gaps).toEqual([]);
});

test.for<[string, SignalSlice[], LossCount[]]>([
  ["oldest after next", [slice(8, 7)], []],
  ["sequence 0", [slice(0, 7)], []],
  ["a sequence that is not a number", [slice(Number.NaN, 7)], []],
  ["a sequence beyond 2^53", [slice(1, 2 ** 64)], []],
  ["rows after the next", [slice(1, 10, 1, 10)], []],
  ["a damaged batch", [{ ...slice(1, 11), batch: { ...slice(1, 11, 1, 10).batch!, rows: 9 } }], []],
  ["a negative loss", [], [{ signal: "sample", reason: "disk-full", rows: -1 }]],
  ["a loss beyond counting", [], [{ signal: "sample", reason: "disk-full", rows: 2 ** 60 }]],
  ["a long reason", [], [{ signal: "sample", reason: "x".repeat(65), rows: 1 }]],
  ["too many losses", [], Array.from({ length: 257 }, (_, index) => ({ signal: "sample", reason: String(index), rows: 1 }))],
])("planPull() rejects %s", ([, slices, losses]) => {
  expect(() => plan(source(), slices, losses)).toThrow(expect.objectContaining({ code: "invalid" }));
});
