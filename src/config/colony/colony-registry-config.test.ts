import { describe, expect, it } from "vitest";
import { colonyRegistrySection, toColonyRegistry } from "./colony-registry-config.ts";

const read = (file: unknown) => toColonyRegistry(colonyRegistrySection.parse(file));

describe("toColonyRegistry()", () => {
  it("accepts legacy agents with a warning by default", () => {
    expect(read({})).toEqual({
      requireRuntimeContext: false,
      warnPassiveSidecars: true,
      legacy: { isEnabled: true, warnAfterMs: null, rejectAfterMs: null },
    });
  });

  it("reads a day as its start in UTC", () => {
    const policy = { enabled: true, warn_after: "2024-06-01", reject_after: "2024-09-01" };
    expect(read({ legacy_agent_policy: policy }).legacy).toEqual({
      isEnabled: true,
      warnAfterMs: Date.UTC(2024, 5, 1),
      rejectAfterMs: Date.UTC(2024, 8, 1),
    });
  });

  it.each(["tomorrow", "2024-13-01", "01.09.2024", "2024-9-1"])("rejects the day %j", (reject_after) => {
    expect(colonyRegistrySection.safeParse({ legacy_agent_policy: { reject_after } }).success).toBe(false);
  });

  it("rejects reject_after before warn_after", () => {
    const policy = { warn_after: "2024-09-01", reject_after: "2024-06-01" };
    expect(colonyRegistrySection.safeParse({ legacy_agent_policy: policy }).success).toBe(false);
  });
});
