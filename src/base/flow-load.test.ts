import { expect, test } from "vitest";
import { FlowLoad } from "./flow-load.ts";

const mebibyte = 1024 ** 2;

test("FlowLoad reports the first heavy flow and the end of the last", () => {
  const reports: boolean[] = [];
  const load = new FlowLoad((isBusy) => reports.push(isBusy));
  const [small, first, second] = [load.begin(), load.begin(), load.begin()];
  small.add(8 * mebibyte);
  expect(reports).toEqual([]);
  for (let part = 0; part < 9; part++) first.add(mebibyte);
  first.add(mebibyte);
  second.add(9 * mebibyte);
  expect(reports).toEqual([true]);
  first.end();
  first.end();
  small.end();
  first.add(100 * mebibyte);
  expect(reports).toEqual([true]);
  second.end();
  expect(reports).toEqual([true, false]);
});
