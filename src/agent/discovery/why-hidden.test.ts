import { expect, it } from "vitest";
import { count, whyHidden } from "./why-hidden.ts";

it("whyHidden() names what is missing, and never advises root to who has it all", () => {
  expect(whyHidden(["CAP_SYS_PTRACE"])).toBe("run the agent as root or with CAP_SYS_PTRACE");
  expect(whyHidden([])).not.toContain("root");
});

it("count() knows one and many", () => {
  expect([count(1, "socket"), count(2, "socket"), count(3, "process", "processes")]).toEqual(["1 socket", "2 sockets", "3 processes"]);
});
