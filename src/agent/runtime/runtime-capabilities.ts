/** The agent's capabilities in its runtime, with a reason and a fix for each missing one. */

import { matcherOf } from "../../base/name-pattern.ts";
import type { AgentExecConfig } from "../../config/index.ts";
import { type CapabilityFact, capabilityNames, impossibleBecause } from "../../model/runtime-facts.ts";

/** What capabilities are derived from. */
export interface CapabilitySources {
  runtimeType: string;
  sidecarMode: string;
  /** Whether it may enter namespaces of other containers; without a container runtime that is the only way to reach them. Default true. */
  entersNamespaces?: boolean;
  /** Default false. */
  hasContainerRuntime?: boolean;
  /** ebpf, profile and debug, as probed. */
  kernel: readonly CapabilityFact[];
  /** Captures need request observation. */
  capture: { available: boolean; reason: string; fix: string };
  /** exec, shell and run where the config denies them. Absent: none denied. */
  refused?: Readonly<Record<string, { reason: string; fix: string } | undefined>>;
}

/** Pure: from the detected context and the config to capabilities with reasons and fixes. */
export function runtimeCapabilities(sources: CapabilitySources): CapabilityFact[] {
  return capabilityNames.map((name) => capabilityFact(name, sources));
}

const commandKinds = ["exec", "shell", "run"];

type Policy = Pick<AgentExecConfig, "profile" | "rules">;

/** Kinds of commands that the policy can never allow. Whether it allows a single command is decided when the command runs. */
export function refusedCommands(policy: Policy): NonNullable<CapabilitySources["refused"]> {
  return Object.fromEntries(
    commandKinds.flatMap((kind) => {
      const denial = refusedKind(policy, kind);
      return denial === null ? [] : [[kind, denial]];
    }),
  );
}

/** `off` overrides all rules. Otherwise the first rule that allows some or denies all of the kind decides; without one, the profile. */
function refusedKind({ profile, rules }: Policy, kind: string): { reason: string; fix: string } | null {
  if (profile === "off")
    return {
      reason: "commands are disabled by exec.profile: off",
      fix: "Set exec.profile to diagnostics or full in agent.yaml; then reload the agent with SIGHUP",
    };
  for (const rule of rules.filter((candidate) => isUnbound(candidate.kind) || matcherOf(candidate.kind)(kind))) {
    if (rule.action === "allow") return null;
    // Under the read-only profile, only a rule that names a program can hold a denied command for approval.
    if (rule.action === "require_approval" && profile === "diagnostics" && rule.program.length > 0) return null;
    const isForAll = [rule.program, rule.args, rule.user, rule.target, rule.environment].every(isUnbound);
    if (rule.action === "deny" && isForAll)
      return {
        reason: `denied by rule "${rule.name}" in exec.rules`,
        fix: "Change the rule in agent.yaml; then reload the agent with SIGHUP",
      };
  }
  if (profile === "full" || kind === "exec") return null;
  return {
    reason: `denied by policy profile ${profile}`,
    fix: `Set exec.profile: full in agent.yaml, or add a rule to exec.rules that allows a program with kind: ${kind}; then reload the agent with SIGHUP`,
  };
}

function isUnbound(patterns: readonly string[]): boolean {
  return patterns.length === 0 || patterns.includes("*");
}

/** In a pod, commands target other containers than the agent's own. */
function unreachableNeighbours(name: string, sources: CapabilitySources): { reason: string; fix: string } | null {
  const { runtimeType, entersNamespaces = true, hasContainerRuntime = false } = sources;
  const isForNeighbours = runtimeType.startsWith("k8s-") && (name === "exec" || name === "shell");
  if (!isForNeighbours || entersNamespaces || hasContainerRuntime) return null;
  return {
    reason: "the agent lacks permission to enter the namespaces of other containers",
    fix: "Add SYS_ADMIN, SYS_CHROOT and SYS_PTRACE to the agent's securityContext.capabilities, or mount the CRI socket",
  };
}

function capabilityFact(name: string, sources: CapabilitySources): CapabilityFact {
  const { runtimeType, sidecarMode, kernel, capture, refused } = sources;
  const denial = impossibleBecause(name, runtimeType, sidecarMode) ?? unreachableNeighbours(name, sources) ?? refused?.[name] ?? null;
  if (denial !== null) return { name, available: false, ...denial };
  if (name === "capture") return { name, ...capture };
  return (
    kernel.find((fact) => fact.name === name) ??
    (isKernelCapability(name) ? unknownKernel(name) : { name, available: true, reason: "", fix: "" })
  );
}

function isKernelCapability(name: string): boolean {
  return name === "ebpf" || name === "profile" || name === "debug";
}

function unknownKernel(name: string): CapabilityFact {
  return { name, available: false, reason: "kernel support was not probed", fix: "Run coral doctor on this host" };
}
