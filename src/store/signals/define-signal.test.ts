import { expect, test } from "vitest";
import { sample } from "../store.fixture.ts";
import { columnTypeOf, defineSignal } from "./define-signal.ts";

const { rollup: _rollup, ...plain } = sample;

test("defineSignal() returns the declaration", () => {
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
])("defineSignal() rejects a column named %j", (name) => {
  expect(() => defineSignal({ ...plain, columns: { [name]: "int" } })).toThrow("Cannot define signal");
});

test("defineSignal() rejects a name that is not a plain SQL identifier", () => {
  expect(() => defineSignal({ ...plain, name: "x; DROP", columns: {} })).toThrow("not snake_case");
});

test("columnTypeOf() separates type and nullability", () => {
  expect(columnTypeOf("uints?")).toEqual({ type: "uints", nullable: true });
  expect(columnTypeOf("text")).toEqual({ type: "text", nullable: false });
});
