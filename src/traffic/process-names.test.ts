import { expect, it } from "vitest";
import { ProcessNames } from "./process-names.ts";

it("ProcessNames keeps the name of a process that has ended for the window that saw it and the next", () => {
  const running = new Map([[5, "curl"]]);
  let reads = 0;
  const names = new ProcessNames((pid) => {
    reads++;
    return running.get(pid) ?? null;
  });
  names.see(5);
  running.clear();
  names.see(5);
  names.see(6);
  expect([names.nameOf(5), names.nameOf(6), reads]).toEqual(["curl", undefined, 2]);
  names.turn();
  names.see(5);
  expect(names.nameOf(5)).toBe("curl");
  names.turn();
  names.turn();
  expect(names.nameOf(5)).toBeUndefined();
});

it("ProcessNames reads no more processes than it may keep", () => {
  const names = new ProcessNames((pid) => `p${pid}`, 2);
  for (const pid of [1, 2, 3]) names.see(pid);
  expect([names.nameOf(2), names.nameOf(3)]).toEqual(["p2", undefined]);
});
