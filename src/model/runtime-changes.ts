import { capabilityNames, type RuntimeFacts } from "./runtime-facts.ts";

/** The changes, in words; empty when nothing changed. */
export function describeRuntimeChanges(before: RuntimeFacts, after: RuntimeFacts): string[] {
  const runtimeOf = ({ containerRuntime }: RuntimeFacts): string =>
    containerRuntime === null ? "none" : `${containerRuntime.type} ${containerRuntime.version} at ${containerRuntime.socketPath}`;
  const pairs: [string, string, string][] = [
    ["runtime type", before.runtimeType, after.runtimeType],
    ["sidecar mode", before.sidecarMode || "none", after.sidecarMode || "none"],
    ["container runtime", runtimeOf(before), runtimeOf(after)],
    ["containers", before.visibility.containers.join(" ") || "none", after.visibility.containers.join(" ") || "none"],
    ["visibility", before.visibility.namespace, after.visibility.namespace],
    ["platform", Object.values(before.platform).join(" "), Object.values(after.platform).join(" ")],
    ["version", before.version, after.version],
  ];
  const names = new Set<string>([
    ...capabilityNames,
    ...before.capabilities.map(({ name }) => name),
    ...after.capabilities.map(({ name }) => name),
  ]);
  const can = ({ capabilities }: RuntimeFacts, name: string): string =>
    capabilities.find((fact) => fact.name === name)?.available === true ? "yes" : "no";
  for (const name of names) pairs.push([name, can(before, name), can(after, name)]);
  return pairs.filter(([, was, is]) => was !== is).map(([name, was, is]) => `${name} ${was} → ${is}`);
}
