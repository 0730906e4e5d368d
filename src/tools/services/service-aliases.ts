/** Maps span names to discovered services: a program names itself in spans, the agent names its process by observation. */

import type { ServiceAtAgent } from "../../model/services.ts";
import type { SpanProcessFact } from "../../model/traces.ts";

/**
 * Discovered service by span name, for the same process. Agent, pid and program must match, because a pid alone may be one
 * inside a container. A span name that is also a discovered name, or that maps to several services, has no alias.
 */
export function serviceAliases(processes: readonly SpanProcessFact[], services: readonly ServiceAtAgent[]): Map<string, string> {
  const own = new Set(services.map(({ service }) => service));
  const found = new Map<string, Set<string>>();
  for (const { agentId, service, resource } of processes) {
    if (own.has(service)) continue;
    const { pid, program } = processIn(resource);
    if (pid === undefined || program === undefined) continue;
    for (const place of services) {
      if (place.agentId !== agentId || place.status === "stale" || !place.pids.includes(pid) || !isProgram(place.exe, program)) continue;
      found.set(service, (found.get(service) ?? new Set()).add(place.service));
    }
  }
  const aliases = new Map<string, string>();
  for (const [service, names] of found) {
    const [only] = names;
    if (only !== undefined && names.size === 1) aliases.set(service, only);
  }
  return aliases;
}

function processIn(resource: string): { pid?: number; program?: string } {
  let attributes: unknown;
  try {
    attributes = JSON.parse(resource);
  } catch {
    // Resource attributes are untrusted; ignore what is not JSON.
    return {};
  }
  if (typeof attributes !== "object" || attributes === null) return {};
  const values = attributes as Record<string, unknown>;
  const pid = Number(values["process.pid"]);
  const program = values["process.executable.path"] ?? values["process.executable.name"];
  return { ...(Number.isSafeInteger(pid) && pid > 0 && { pid }), ...(typeof program === "string" && program !== "" && { program }) };
}

/** `/usr/bin/python3` and `/usr/bin/python3.13` match. */
function isProgram(exe: string | null, program: string): boolean {
  const [seen, reported] = [baseName(exe ?? ""), baseName(program)];
  return seen !== "" && reported !== "" && (seen.startsWith(reported) || reported.startsWith(seen));
}

function baseName(path: string): string {
  return path.slice(path.lastIndexOf("/") + 1);
}
