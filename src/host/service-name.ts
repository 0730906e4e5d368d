/** The name that Coral gives to whoever listens on a port, from what the host knows about the process. */

import { basename } from "node:path";
import { containerIdOf, systemdUnitOf } from "./cgroup-names.ts";
import { printable } from "./kernel-text.ts";
import { nameOfFile } from "./path-name.ts";
import { interpreterOf, scriptNameOf } from "./script-name.ts";

/** What a name comes from, best first. */
export type NamedBy = "systemd-unit" | "script" | "executable" | "process-name" | "port";

export interface ProcessFacts {
  port: number;
  cgroup: string | null;
  exe: string | null;
  /** The kernel's name of the process, at most 15 characters. */
  processName: string | null;
  /** argv; only looked at, never kept. */
  arguments: readonly string[];
  workingDirectory: string | null;
}

export interface ServiceName {
  service: string;
  namedBy: NamedBy;
  /** Short id; tells services with the same name apart when they run in containers. */
  containerId: string | null;
}

const maxNameLength = 64;
/** Enough for the options of a Java server; a hostile process may have more. */
const maxArguments = 512;
const maxArgumentLength = 4096;
/** One file, many programs: argv[0] says which. */
const multiCall = new Set(["busybox", "toybox", "coreutils"]);

/** Letters, digits and `._@:+-`; everything else, blanks included, becomes a hyphen. Null when nothing is left. */
function cleanName(name: string | null): string | null {
  if (name === null) return null;
  const clean = printable(name, maxNameLength * 2)
    .replace(/[^\p{L}\p{N}._@:+-]+/gu, "-")
    .replace(/^[-.]+|-+$/g, "")
    .slice(0, maxNameLength);
  return /[\p{L}\p{N}]/u.test(clean) ? printable(clean, maxNameLength) : null;
}

export function nameService(facts: ProcessFacts): ServiceName {
  const { exe, cgroup, processName } = facts;
  const args = facts.arguments.slice(0, maxArguments).map((arg) => arg.slice(0, maxArgumentLength));
  const program = exe ?? processName ?? "";
  const interpreter = interpreterOf(program);
  const executable = (): string | null => {
    if (exe === null) return null;
    if (multiCall.has(basename(exe))) return basename(args[0] ?? exe);
    return interpreter ?? nameOfFile(exe, null);
  };
  const attempts: [NamedBy, () => string | null][] = [
    ["systemd-unit", () => (cgroup === null ? null : systemdUnitOf(cgroup))],
    ["script", () => (interpreter === null ? null : scriptNameOf(interpreter, args, facts.workingDirectory))],
    ["executable", executable],
    ["process-name", () => processName],
  ];
  const containerId = cgroup === null ? null : containerIdOf(cgroup);
  for (const [namedBy, attempt] of attempts) {
    const service = cleanName(attempt());
    if (service !== null) return { service, namedBy, containerId };
  }
  return { service: `unknown-${facts.port}`, namedBy: "port", containerId };
}
