/** Programs name themselves in their spans, agents name processes by what they see: the same process is the same service, whatever it is called. */

import type { ServiceAtAgent } from "../../model/services.ts";
import type { SpanProcessFact } from "../../model/traces.ts";

/**
 * From a name in spans to the service that the same process was found as. A process is the same when its agent, pid and program agree; a pid
 * alone may be one inside a container. A name that also is a service's own, or that means several, has no other.
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
    // Resource attributes come from the program and may be anything; ignore what is not JSON.
    return {};
  }
  if (typeof attributes !== "object" || attributes === null) return {};
  const values = attributes as Record<string, unknown>;
  const pid = Number(values["process.pid"]);
  const program = values["process.executable.path"] ?? values["process.executable.name"];
  return { ...(Number.isSafeInteger(pid) && pid > 0 && { pid }), ...(typeof program === "string" && program !== "" && { program }) };
}

/** `/usr/bin/python3` and `/usr/bin/python3.13` are one. */
function isProgram(exe: string | null, program: string): boolean {
  const [seen, reported] = [baseName(exe ?? ""), baseName(program)];
  return seen !== "" && reported !== "" && (seen.startsWith(reported) || reported.startsWith(seen));
}

function baseName(path: string): string {
  return path.slice(path.lastIndexOf("/") + 1);
}
