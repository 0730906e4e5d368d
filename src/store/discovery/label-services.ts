/** Labels of services: their names, with the shortest qualifier that tells namesakes apart. */

import { remembered } from "../../base/remembered.ts";
import { isServiceId, nameInServiceId } from "../../model/service-identity.ts";

export interface NamedService {
  id: string;
  name: string;
  /** Shortest first; a port as `:5432`. */
  qualifiers: readonly string[];
  /** It was seen lately: what is gone gives way to what is there. */
  isCurrent: boolean;
}

/** Unique labels by id. A name alone where only one current service has it. */
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
  // In the order of ids, so that labels do not depend on which service was seen first.
  for (const service of [...services].sort((a, b) => (a.id < b.id ? -1 : 1))) {
    if (labels.has(service.id)) continue;
    const others = (byName.get(service.name) ?? []).filter((other) => other !== service);
    const shared = new Set(others.flatMap(({ qualifiers }) => qualifiers));
    const own = service.qualifiers.filter((qualifier) => !shared.has(qualifier));
    const isGiven = own.some((qualifier) => give(service.id, qualified(service.name, qualifier)));
    // Nothing else tells them apart: the id does.
    if (!isGiven) give(service.id, qualified(service.name, digestIn(service.id)));
  }
  return labels;
}

/** The only current one; of several none, except one that is known by its name alone, such as a row of an older agent. */
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
