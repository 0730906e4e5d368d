import { expect, it } from "vitest";
import { processStateOf } from "./process-state.ts";

it("processStateOf() knows this process and says nothing of one that is not there", () => {
  expect(processStateOf(process.pid)).toMatch(/^[RSD]$/);
  expect(processStateOf(2 ** 30)).toBeUndefined();
});
