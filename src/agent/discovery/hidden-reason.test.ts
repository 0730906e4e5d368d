import { expect, it } from "vitest";
import { hiddenReason, plural } from "./hidden-reason.ts";

it("hiddenReason() names missing capabilities, and advises root only when some are missing", () => {
  expect(hiddenReason(["CAP_SYS_PTRACE"])).toBe("run the agent as root or with CAP_SYS_PTRACE");
  expect(hiddenReason([])).not.toContain("root");
});

it("plural() picks singular or plural", () => {
  expect([plural(1, "socket"), plural(2, "socket"), plural(3, "process", "processes")]).toEqual(["1 socket", "2 sockets", "3 processes"]);
});
