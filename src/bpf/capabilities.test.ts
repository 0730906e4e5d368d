import { readFileSync } from "node:fs";
import { expect, it } from "vitest";
import { effectiveCapabilities, hasCapability, missingCapabilities } from "./capabilities.ts";

it("effectiveCapabilities() matches /proc/self/status", () => {
  const reported = /^CapEff:\s*([0-9a-f]+)$/m.exec(readFileSync("/proc/self/status", "utf8"))?.[1];
  expect(effectiveCapabilities()).toBe(BigInt(`0x${reported}`));
});

it("hasCapability() tests one bit", () => {
  expect(hasCapability(1n << 39n, "CAP_BPF")).toBe(true);
  expect(hasCapability(1n << 39n, "CAP_PERFMON")).toBe(false);
});

it("missingCapabilities() omits those that are present", () => {
  const all = ["CAP_BPF", "CAP_SYS_ADMIN"] as const;
  expect(missingCapabilities(all)).toEqual(all.filter((name) => !hasCapability(effectiveCapabilities(), name)));
});
