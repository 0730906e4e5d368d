import { expect, it } from "vitest";
import { processStateOf } from "./process-state.ts";

it("processStateOf() returns the state of this process, and nothing for one that does not exist", () => {
  expect(processStateOf(process.pid)).toMatch(/^[RSD]$/);
  expect(processStateOf(2 ** 30)).toBeUndefined();
});
