/** Labels of services: their names, with the shortest qualifier that distinguishes services of the same name. */

import { remembered } from "../../base/remembered.ts";
import { isServiceId, nameInServiceId } from "../../model/service-identity.ts";

export interface NamedService {
  id: string;
  name: string;
  /** Shortest first. A port is written as `:5432`. */
  qualifiers: readonly string[];
  /** Seen recently. A current service has precedence over one that is gone. */
  isCurrent: boolean;
}

/** Unique labels by id. The bare name is a label only where one current service has it. */
export function labelServices(services: readonly NamedService[]): Map<string, string> {
  const byName = new Map<string, NamedService[]>();
  for (const service of services) remembered(byName, service.name, () => []).push(service);
  const labels = new Map<string, string>();
  const taken = new Set<string>();
  const give = (id: string, label: string): boolean => {
    if (taken.has(label)) return false;
    taken.add(label);
    labels.set(id, label);
    return true;
  };
  for (const [name, namesakes] of byName) {
    const plain = plainlyNamed(namesakes);
    if (plain !== undefined) give(plain.id, name);
  }
  // Sorted by id, so that labels do not depend on which service was seen first.
  for (const service of [...services].sort((a, b) => (a.id < b.id ? -1 : 1))) {
    if (labels.has(service.id)) continue;
    const others = (byName.get(service.name) ?? []).filter((other) => other !== service);
    const shared = new Set(others.flatMap(({ qualifiers }) => qualifiers));
    const own = service.qualifiers.filter((qualifier) => !shared.has(qualifier));
    const isGiven = own.some((qualifier) => give(service.id, qualified(service.name, qualifier)));
    // No qualifier distinguishes them: use the id.
    if (!isGiven) give(service.id, qualified(service.name, digestIn(service.id)));
  }
  return labels;
}

/** The only current service of a name. If there are several: the one without a qualifier, such as a row of an older agent, else none. */
function plainlyNamed(namesakes: readonly NamedService[]): NamedService | undefined {
  const current = namesakes.filter(({ isCurrent }) => isCurrent);
  const candidates = current.length > 0 ? current : namesakes;
  if (candidates.length === 1) return candidates[0];
  return candidates.find(({ id }) => !isServiceId(id));
}

function qualified(name: string, qualifier: string): string {
  return qualifier.startsWith(":") ? `${name}${qualifier}` : `${name} (${qualifier})`;
}

function digestIn(id: string): string {
  return /#([0-9a-f]+)/.exec(id)?.[1]?.slice(0, 6) ?? (isServiceId(id) ? `${id.slice(0, id.indexOf(":"))} ${nameInServiceId(id)}` : id);
}
