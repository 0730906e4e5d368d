import { describe, expect, it } from "vitest";
import type { LegacyPolicy } from "../../config/index.ts";
import { checkLegacy, legacyPhase } from "./legacy-policy.ts";

const [june, september] = [Date.UTC(2024, 5, 1), Date.UTC(2024, 8, 1)];
const july = Date.UTC(2024, 6, 1);
const policy = (change: Partial<LegacyPolicy> = {}): LegacyPolicy => ({
  isEnabled: true,
  warnAfterMs: june,
  rejectAfterMs: september,
  ...change,
});
const config = (legacy: LegacyPolicy, requireRuntimeContext = false) => ({ requireRuntimeContext, warnPassiveSidecars: true, legacy });
const old = { agentId: "api-002", version: "1.9.0", protocolVersion: 1, hasRuntime: false };

describe("legacyPhase()", () => {
  it.each<[string, Partial<LegacyPolicy>, number, string]>([
    ["before the warning", { rejectAfterMs: null }, june - 1, "quiet"],
    ["grace", { rejectAfterMs: null }, june, "grace"],
    ["a policy without a warning date", { warnAfterMs: null, rejectAfterMs: null }, 0, "grace"],
    ["transition", {}, july, "transition"],
    ["the last moment", {}, september - 1, "transition"],
    ["enforced", {}, september, "enforced"],
    ["switched off", { isEnabled: false }, september, "off"],
  ])("is in %s", (_name, change, nowMs, phase) => {
    expect(legacyPhase(policy(change), nowMs)).toBe(phase);
  });
});

describe("checkLegacy()", () => {
  it("warns in the grace period, and logs errors once the date is set", () => {
    expect(checkLegacy(old, config(policy({ rejectAfterMs: null })), july)).toMatchObject({ level: "warn" });
    const note = checkLegacy(old, config(policy()), july);
    expect(note).toMatchObject({ level: "error", message: expect.stringContaining("refused from 2024-09-01 on") });
    expect(checkLegacy(old, config(policy({ isEnabled: false })), september)).toBeUndefined();
  });

  it("refuses after the date, with upgrade steps", () => {
    const refuse = (): unknown => checkLegacy(old, config(policy()), september);
    expect(refuse).toThrow(
      "Agent registration rejected\n\nAgent: api-002\nVersion: v1.9.0 (legacy)\nReason: Protocol version too old (runtime context required)\n",
    );
    expect(refuse).toThrow(/1\. Update[\s\S]*2\. Restart[\s\S]*3\. Verify/);
    expect(refuse).toThrow("Minimum required version");
  });

  it("accepts newer agents without a runtime context, unless it is required", () => {
    const now = { ...old, protocolVersion: 2 };
    expect(checkLegacy(now, config(policy()), september)).toBeUndefined();
    expect(checkLegacy({ ...now, hasRuntime: true }, config(policy(), true), september)).toBeUndefined();
    expect(() => checkLegacy(now, config(policy(), true), june)).toThrow("runtime.reporting.enabled");
    expect(() => checkLegacy(old, config(policy(), true), june)).toThrow("Agent registration rejected");
  });
});
