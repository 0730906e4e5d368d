/** Counts agents by operating system, runtime and capability. */

import { capabilityNames, capabilityOf, modeLabel, shortRuntimeLabel } from "../../model/runtime-facts.ts";
import type { RegistrationFacts } from "../contract/backend.ts";
import type { AgentInfo } from "../schemas/agent.ts";
import type { RuntimeDistribution } from "../schemas/runtime.ts";

const listedMax = 20;
const osNames: Readonly<Record<string, string>> = { linux: "Linux", darwin: "macOS", windows: "Windows" };

/** `Linux`, `macOS`; an unknown name unchanged. */
export function osLabel(os: string): string {
  return osNames[os] ?? os;
}

export function runtimeDistribution(agents: readonly AgentInfo[], registration: RegistrationFacts | undefined): RuntimeDistribution {
  const known = agents.flatMap(({ runtime }) => (runtime === null ? [] : [runtime]));
  const legacy = agents.filter(({ isLegacy }) => isLegacy);
  return {
    platforms: grouped(known, ({ platform }) => osLabel(platform.os)).map(([name, members]) => ({
      name,
      agents: members.length,
      versions: grouped(members, ({ platform }) => distribution(platform.osVersion)).map(([version, of]) => ({
        name: version,
        agents: of.length,
      })),
    })),
    types: [
      ...grouped(known, ({ runtimeType }) => shortRuntimeLabel(runtimeType)).map(([name, members]) => ({
        name,
        agents: members.length,
        modes: grouped(members, modeLabel)
          .filter(([mode]) => mode !== "-")
          .map(([mode, of]) => ({ name: mode, agents: of.length })),
      })),
      ...(known.length < agents.length ? [{ name: "unknown", agents: agents.length - known.length, modes: [] }] : []),
    ],
    capabilities: capabilityNames.map((name) => ({
      name,
      agents: known.filter((runtime) => capabilityOf(runtime, name)?.available === true).length,
      of: known.length,
    })),
    legacy: {
      agents: legacy.length,
      percent: agents.length === 0 ? 0 : Math.round((legacy.length / agents.length) * 10_000) / 100,
      phase: registration?.legacyPhase ?? "off",
      rejectAfter: registration?.legacyRejectAfter ?? null,
      upgradeSteps: registration?.upgradeSteps ?? [],
      listed: legacy.slice(0, listedMax).map(({ agentId, version }) => ({ agentId, version })),
    },
  };
}

/** `Ubuntu` for `Ubuntu 22.04`; macOS and Windows are one group each. */
function distribution(osVersion: string): string {
  return /^(.*?)[ ]*[\d.]*$/.exec(osVersion)?.[1] || osVersion || "unknown";
}

/** Largest group first, then by name. */
function grouped<Item>(items: readonly Item[], keyOf: (item: Item) => string): [string, Item[]][] {
  const groups = new Map<string, Item[]>();
  for (const item of items) {
    const key = keyOf(item);
    const members = groups.get(key) ?? [];
    members.push(item);
    groups.set(key, members);
  }
  return [...groups].sort(([a, as], [b, bs]) => bs.length - as.length || a.localeCompare(b));
}
