/** What this agent can do where it runs, each with the reason when not. */

import { matcherOf } from "../../base/name-pattern.ts";
import type { AgentExecConfig } from "../../config/index.ts";
import { type CapabilityFact, capabilityNames, impossibleBecause } from "../../model/runtime-facts.ts";

export interface CapabilitySources {
  runtimeType: string;
  sidecarMode: string;
  /** Whether it may enter the namespaces of its neighbours; only that way they can be reached without a container runtime. Default true. */
  entersNamespaces?: boolean;
  /** Default false. */
  hasContainerRuntime?: boolean;
  /** ebpf, profile and debug, as the kernel was found to allow them. */
  kernel: readonly CapabilityFact[];
  /** Whether requests are read: what captures show. */
  capture: { available: boolean; reason: string; fix: string };
  /** What the agent's own config takes away: exec, shell, run. Absent: nothing. */
  refused?: Readonly<Record<string, { reason: string; fix: string } | undefined>>;
}

export function runtimeCapabilities(sources: CapabilitySources): CapabilityFact[] {
  return capabilityNames.map((name) => capabilityFact(name, sources));
}

const commandKinds = ["exec", "shell", "run"];

type Policy = Pick<AgentExecConfig, "profile" | "rules">;

/** Kinds of commands that the policy of this agent can never let through. What it makes of a single command is told when it is tried. */
export function refusedCommands(policy: Policy): NonNullable<CapabilitySources["refused"]> {
  return Object.fromEntries(
    commandKinds.flatMap((kind) => {
      const absent = refusedKind(policy, kind);
      return absent === null ? [] : [[kind, absent]];
    }),
  );
}

/** With `off` no rule counts. Else the first rule decides that lets something of the kind through, or nothing; without one the profile does. */
function refusedKind({ profile, rules }: Policy, kind: string): { reason: string; fix: string } | null {
  if (profile === "off")
    return {
      reason: "commands are switched off by exec.profile: off",
      fix: "Set exec.profile to diagnostics or full in agent.yaml; a running agent reads it again on SIGHUP",
    };
  for (const rule of rules.filter((candidate) => isUnbound(candidate.kind) || matcherOf(candidate.kind)(kind))) {
    if (rule.action === "allow") return null;
    // Of what the read-only profile refuses, only a named program can wait for an approval.
    if (rule.action === "require_approval" && profile === "diagnostics" && rule.program.length > 0) return null;
    const isForAll = [rule.program, rule.args, rule.user, rule.target, rule.environment].every(isUnbound);
    if (rule.action === "deny" && isForAll)
      return {
        reason: `denied by the rule "${rule.name}" of exec.rules`,
        fix: "Change the rule in agent.yaml; a running agent reads it again on SIGHUP",
      };
  }
  if (profile === "full" || kind === "exec") return null;
  return {
    reason: `denied by policy profile ${profile}`,
    fix: `Set exec.profile: full in agent.yaml, or allow a program by a rule with kind: ${kind} in exec.rules; a running agent reads it again on SIGHUP`,
  };
}

function isUnbound(patterns: readonly string[]): boolean {
  return patterns.length === 0 || patterns.includes("*");
}

/** In a pod, commands are for other containers than the agent's own. */
function unreachableNeighbours(name: string, sources: CapabilitySources): { reason: string; fix: string } | null {
  const { runtimeType, entersNamespaces = true, hasContainerRuntime = false } = sources;
  const isForNeighbours = runtimeType.startsWith("k8s-") && (name === "exec" || name === "shell");
  if (!isForNeighbours || entersNamespaces || hasContainerRuntime) return null;
  return {
    reason: "the agent may not enter the namespaces of other containers",
    fix: "Add SYS_ADMIN, SYS_CHROOT and SYS_PTRACE to securityContext.capabilities of the agent, or mount the CRI socket",
  };
}

function capabilityFact(name: string, sources: CapabilitySources): CapabilityFact {
  const { runtimeType, sidecarMode, kernel, capture, refused } = sources;
  const absent = impossibleBecause(name, runtimeType, sidecarMode) ?? unreachableNeighbours(name, sources) ?? refused?.[name] ?? null;
  if (absent !== null) return { name, available: false, ...absent };
  if (name === "capture") return { name, ...capture };
  return (
    kernel.find((fact) => fact.name === name) ?? (isKernels(name) ? unknownKernel(name) : { name, available: true, reason: "", fix: "" })
  );
}

function isKernels(name: string): boolean {
  return name === "ebpf" || name === "profile" || name === "debug";
}

function unknownKernel(name: string): CapabilityFact {
  return { name, available: false, reason: "the kernel was not asked", fix: "run coral doctor on this host" };
}
