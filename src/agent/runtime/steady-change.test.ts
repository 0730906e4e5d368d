import { expect, it } from "vitest";
import { SteadyChange } from "./steady-change.ts";

it("SteadyChange is due when another value has stayed for long enough", () => {
  const change = new SteadyChange(10);
  expect(change.isDue("a", 0)).toBe(false);
  expect(change.isDue("a", 100)).toBe(false);
  change.tell("a");
  expect(change.isDue("a", 200)).toBe(false);
  expect(change.isDue("b", 210)).toBe(false);
  expect(change.isDue("b", 219)).toBe(false);
  expect(change.isDue("b", 220)).toBe(true);
  change.tell("b");
  expect(change.isDue("b", 230)).toBe(false);
});

it("SteadyChange keeps quiet about what comes and goes", () => {
  const change = new SteadyChange(10);
  change.tell("a");
  for (let at = 0; at < 100; at += 5) expect(change.isDue(at % 10 === 0 ? "a" : "b", at)).toBe(false);
});
