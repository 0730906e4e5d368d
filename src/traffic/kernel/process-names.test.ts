import { expect, it } from "vitest";
import { ProcessNames } from "./process-names.ts";

const at = 8;
/** A record with the name of its process at byte 8; without one: 16 zeros. */
const record = (name = ""): Buffer => Buffer.concat([Buffer.alloc(at, 1), Buffer.from(name.padEnd(16, "\0")), Buffer.from("more")]);

it("ProcessNames keeps the name of a process that has ended for the window that saw it and the next", () => {
  const running = new Map([[5, "curl"]]);
  let reads = 0;
  const names = new ProcessNames((pid) => {
    reads++;
    return running.get(pid) ?? null;
  });
  names.observe(5, record(), at);
  running.clear();
  names.observe(5, record(), at);
  names.observe(6, record(), at);
  expect([names.nameOf(5), names.nameOf(6), reads]).toEqual(["curl", undefined, 2]);
  names.endWindow();
  names.observe(5, record(), at);
  expect(names.nameOf(5)).toBe("curl");
  names.endWindow();
  names.endWindow();
  expect(names.nameOf(5)).toBeUndefined();
});

it("ProcessNames takes the name from the record, without reading the process", () => {
  let reads = 0;
  const names = new ProcessNames(() => {
    reads++;
    return null;
  });
  names.observe(5, record("curl"), at);
  names.observe(6, record("fifteen-letters"), at);
  names.observe(7, record("tab\there"), at);
  expect([names.nameOf(5), names.nameOf(6), names.nameOf(7), reads]).toEqual(["curl", "fifteen-letters", "tabhere", 0]);
});

it("ProcessNames takes a name from a later record, and one from the window before", () => {
  const names = new ProcessNames(() => null);
  names.observe(5, record(), at);
  names.observe(5, record("curl"), at);
  names.endWindow();
  names.observe(5, record(), at);
  names.endWindow();
  expect(names.nameOf(5)).toBe("curl");
});

it("ProcessNames keeps a name that is used in each window", () => {
  const names = new ProcessNames(() => null);
  names.observe(5, record("curl"), at);
  names.observe(6, record("wget"), at);
  for (let window = 0; window < 4; window++) {
    expect(names.nameOf(5)).toBe("curl");
    names.endWindow();
  }
  expect(names.nameOf(6)).toBeUndefined();
});

it("ProcessNames reads no more processes than its limit", () => {
  const names = new ProcessNames((pid) => `p${pid}`, 2);
  for (const pid of [1, 2, 3]) names.observe(pid, record(), at);
  expect([names.nameOf(2), names.nameOf(3)]).toEqual(["p2", undefined]);
});
