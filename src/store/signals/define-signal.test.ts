import { expect, test } from "vitest";
import { sample } from "../store.fixture.ts";
import { columnTypeOf, defineSignal } from "./define-signal.ts";

const { rollup: _rollup, ...plain } = sample;

test("defineSignal() gives back what was declared", () => {
  expect(defineSignal({ ...plain, name: "other_1", columns: { word: "text" } })).toMatchObject({
    kind: "table",
    name: "other_1",
    columns: { word: "text" },
  });
});

test.for([
  "Sample",
  "1st",
  "with space",
  'quo"te',
  "",
  "seq",
  "at",
  "time",
  "mono_ms",
  "agent_id",
  "epoch",
  "source",
  "ingest",
  "stored_at",
])("defineSignal() refuses a column named %j", (name) => {
  expect(() => defineSignal({ ...plain, columns: { [name]: "int" } })).toThrow("Cannot define signal");
});

test("defineSignal() refuses a name that SQL would read otherwise", () => {
  expect(() => defineSignal({ ...plain, name: "x; DROP", columns: {} })).toThrow("not snake_case");
});

test("columnTypeOf() tells type and null apart", () => {
  expect(columnTypeOf("uints?")).toEqual({ type: "uints", nullable: true });
  expect(columnTypeOf("text")).toEqual({ type: "text", nullable: false });
});
