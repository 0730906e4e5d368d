import { expect, test } from "vitest";
import { QueryBudget, queriesPerMinute } from "./query-budget.ts";

function ask(budget: QueryBudget, caller: string, times: number, nowMs: number): number {
  return Array.from({ length: times }, () => budget.take(caller, nowMs)).filter(Boolean).length;
}

test("QueryBudget limits entries per caller and minute, and counts the rest", () => {
  const budget = new QueryBudget();
  expect(ask(budget, "ann", 1_000, 0)).toBe(queriesPerMinute);
  expect(ask(budget, "bob", 5, 0)).toBe(5);
  expect(budget.takeCounted(59_999)).toEqual([]);
  expect(budget.takeCounted(60_000)).toEqual([{ caller: "ann", queries: 1_000 - queriesPerMinute, sinceMs: 60_000 }]);
  expect(budget.takeCounted(120_000)).toEqual([]);
  expect(ask(budget, "ann", 10, 60_001)).toBe(10);
});

test("QueryBudget starts no new minute before its count was taken", () => {
  const budget = new QueryBudget();
  ask(budget, "ann", queriesPerMinute + 1, 0);
  expect(budget.take("ann", 90_000)).toBe(false);
  expect(budget.takeCounted(90_000)).toMatchObject([{ queries: 2 }]);
  expect(budget.take("ann", 90_000)).toBe(true);
});

test("QueryBudget tracks a bounded number of callers; the others share one budget", () => {
  const budget = new QueryBudget();
  let written = 0;
  for (let index = 0; index < 3_000; index++) written += ask(budget, `caller-${index}`, 1, 0);
  expect(written).toBe(1_000 + queriesPerMinute);
  expect(budget.takeCounted(60_000)).toEqual([{ caller: "*", queries: 2_000 - queriesPerMinute, sinceMs: 60_000 }]);
});
