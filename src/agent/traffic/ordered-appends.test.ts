import { expect, it } from "vitest";
import { createLogger } from "../../base/log.ts";
import { OrderedAppends } from "./ordered-appends.ts";

it("OrderedAppends stores one after the other, and logs failures when they begin, change and end", async () => {
  const lines: string[] = [];
  const appends = new OrderedAppends(
    "requests",
    createLogger("agent", "info", ({ level, message }) => lines.push(`${level} ${message}`)),
  );
  const stored: string[] = [];
  const outcomes = ["first", new Error("disk full"), new Error("disk full"), new Error("store closed"), "last"];
  for (const [index, outcome] of outcomes.entries())
    appends.add(async () => {
      // The earlier ones take longer.
      for (let turn = index; turn < outcomes.length; turn++) await new Promise(setImmediate);
      if (outcome instanceof Error) throw outcome;
      stored.push(outcome);
    });

  await appends.settled();

  expect(stored).toEqual(["first", "last"]);
  expect(lines).toEqual([
    "error cannot store requests: disk full; counting the rows as lost",
    "error cannot store requests: store closed; counting the rows as lost",
    "info storing requests again",
  ]);
});
