import { expect, it } from "vitest";
import { withFlags } from "./show-answer.ts";
import type { ToolFieldBinding } from "./tool-command.ts";

it("rewrites field names to flags, only in the advice", () => {
  const tool = [
    { field: "service", from: 0 },
    { field: "limit", from: { option: "limit" } },
    { field: "level", from: { option: "min-level" } },
  ] as unknown as ToolFieldBinding[];
  expect(withFlags("5 of 9 rows are shown, at the limit; narrow with service or level, or raise limit", { tool })).toBe(
    "5 of 9 rows are shown, at the limit; narrow with service or --min-level, or raise --limit",
  );
  expect(withFlags("the limit was reached", { tool })).toBe("the limit was reached");
  expect(withFlags("not decrypted; see coral service status", { tool: [{ field: "service", from: { option: "service" } }] as never })).toBe(
    "not decrypted; see coral service status",
  );
  expect(withFlags("no metrics; use the agent's port", { tool: [{ field: "agent", from: { option: "agent" } }] as never })).toBe(
    "no metrics; use the agent's port",
  );
  expect(withFlags("cut; raise limit", {})).toBe("cut; raise limit");
});
