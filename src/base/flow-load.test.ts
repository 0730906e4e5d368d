import { expect, test } from "vitest";
import { FlowLoad } from "./flow-load.ts";

const mebibyte = 1024 ** 2;

test("FlowLoad reports the first heavy flow and the end of the last", () => {
  const told: boolean[] = [];
  const load = new FlowLoad((isBusy) => told.push(isBusy));
  const [small, first, second] = [load.begin(), load.begin(), load.begin()];
  small.add(8 * mebibyte);
  expect(told).toEqual([]);
  for (let part = 0; part < 9; part++) first.add(mebibyte);
  first.add(mebibyte);
  second.add(9 * mebibyte);
  expect(told).toEqual([true]);
  first.end();
  first.end();
  small.end();
  first.add(100 * mebibyte);
  expect(told).toEqual([true]);
  second.end();
  expect(told).toEqual([true, false]);
});
