import { expect, it } from "vitest";
import type { TargetAgent } from "../../../tools/index.ts";
import { plainStyle } from "../../output/style.ts";
import { skippedLines, unsupportedPage } from "./command-targets-page.ts";

const reason = "passive mode - no CRI socket, no shared namespace";
const fix = "Mount CRI socket or enable shareProcessNamespace";
const agent = (agentId: string, hostname: string): TargetAgent => ({
  agentId,
  hostname,
  supported: false,
  connected: true,
  runtime: "Kubernetes Sidecar (Passive mode)",
  reason,
  fix,
});

it("unsupportedPage() names agents unambiguously", () => {
  const agents = [agent("vm-1", "vm"), agent("vm-2", "vm"), agent("api-002-5f", "api-002")];
  const page = unsupportedPage({ command: "exec", target: "all", total: 3, agents }, plainStyle);
  expect(page.split("\n").filter((line) => line.includes("❌"))).toEqual([
    `  ❌ vm-1: Kubernetes Sidecar (Passive mode) - not supported (${reason})`,
    `  ❌ vm-2: Kubernetes Sidecar (Passive mode) - not supported (${reason})`,
    `  ❌ api-002: Kubernetes Sidecar (Passive mode) - not supported (${reason})`,
  ]);
});

it("skippedLines() lists skipped agents with reason and fix", () => {
  const targets = [
    { agentId: "vm-1", hostname: "vm" },
    { agentId: "api-001-5f", hostname: "api-001" },
  ];
  const skipped = [
    { agentId: "vm-2", hostname: "vm", reason, fix },
    { agentId: "api-002-5f", hostname: "api-002", reason, fix },
    { agentId: "api-003-5f", hostname: "api-003", reason: "not connected", fix: "" },
  ];
  expect(skippedLines(targets, skipped)).toEqual([
    "the command runs at 2 of 5 agents",
    `vm-2 was skipped: ${reason}`,
    `api-002 was skipped: ${reason}`,
    "api-003 was skipped: not connected",
    `fix: ${fix}`,
  ]);
  expect(skippedLines(targets, [])).toEqual([]);
  expect(skippedLines(targets.slice(1), skipped.slice(2), true)).toEqual(["api-003 was skipped: not connected"]);
});
