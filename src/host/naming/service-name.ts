/** The name that Coral gives to a process, what it comes from, and how sure it is. */

import { basename } from "node:path";
import { printable } from "../../base/escape-text.ts";
import { systemdUnitOf } from "../cgroups/cgroup-names.ts";
import type { ContainerFacts } from "./container-facts.ts";
import type { KubernetesFacts } from "./kubernetes-facts.ts";
import { nameOfDirectory, nameOfFile } from "./path-name.ts";
import { interpreterOf } from "./script-name.ts";
import { erlangNameOf, wellKnownProgramOf } from "./well-known-programs.ts";

/** What a name comes from, best first. */
export type NamedBy =
  | "manual"
  | "config"
  | "kubernetes"
  | "environment"
  | "traffic"
  | "systemd-unit"
  | "container"
  | "pattern"
  | "script"
  | "executable"
  | "process-name"
  | "port";

export const nameConfidence: Readonly<Record<NamedBy, number>> = {
  manual: 1,
  config: 1,
  kubernetes: 0.95,
  environment: 0.92,
  traffic: 0.9,
  "systemd-unit": 0.85,
  container: 0.85,
  pattern: 0.8,
  script: 0.8,
  executable: 0.7,
  "process-name": 0.3,
  port: 0,
};

/** What people configure. */
export interface NamePatterns {
  /** Tried on the command line, in order; `$1` in the name is what the first group matched. */
  patterns: readonly { pattern: RegExp; name: string }[];
}

export interface NamedProcess {
  exe: string | null;
  /** The kernel's name of the process, at most 15 characters. */
  processName: string | null;
  /** argv; only looked at, never kept. */
  arguments: readonly string[];
  /** Asked for only when the name needs it. */
  workingDirectory: () => string | null;
  /** From scriptNameOf: what an interpreter runs; null for other programs. */
  script: string | null;
  environment: ReadonlyMap<string, string>;
  cgroup: string | null;
  container: ContainerFacts | null;
  kubernetes: KubernetesFacts | null;
}

export interface ServiceName {
  service: string;
  namedBy: NamedBy;
  /** 0..1. */
  confidence: number;
}

const maxNameLength = 64;
/** Of a command line, for configured patterns. */
const maxLineLength = 4096;
/** One file, many programs: argv[0] says which. */
const multiCall = new Set(["busybox", "toybox", "coreutils"]);
/** In the order of their weight. */
const nameVariables = ["OTEL_SERVICE_NAME", "SERVICE_NAME", "DD_SERVICE", "ELASTIC_APM_SERVICE_NAME", "SPRING_APPLICATION_NAME"];

/** What most names are already. */
const plainName = /^[A-Za-z0-9][\w.@:+-]{0,61}[A-Za-z0-9]$/;

/** Letters, digits and `._@:+-`; everything else, blanks included, becomes a hyphen. Null when nothing is left. */
export function cleanName(name: string | null | undefined): string | null {
  if (name === null || name === undefined || name === "") return null;
  if (plainName.test(name)) return name;
  const clean = printable(name, maxNameLength * 2)
    .replace(/[^\p{L}\p{N}._@:+-]+/gu, "-")
    .replace(/^[-.]+|-+$/g, "")
    .slice(0, maxNameLength);
  return /[\p{L}\p{N}]/u.test(clean) ? printable(clean, maxNameLength) : null;
}

function nameOfEnvironment(environment: ReadonlyMap<string, string>): string | null {
  for (const variable of nameVariables) {
    const name = cleanName(environment.get(variable));
    if (name !== null) return name;
    // OpenTelemetry's second way to say it comes right after its first.
    const attributes = variable === "OTEL_SERVICE_NAME" ? environment.get("OTEL_RESOURCE_ATTRIBUTES") : undefined;
    const attribute = cleanName(/(?:^|,)\s*service\.name=([^,]+)/.exec(attributes ?? "")?.[1]);
    if (attribute !== null) return attribute;
  }
  return null;
}

/** Compose and Kubernetes give each replica a name of its own; what they share is the service. */
function nameOfContainer(container: ContainerFacts | null, kubernetes: KubernetesFacts | null): string | null {
  if (!container) return kubernetes?.workload ?? null;
  return container.service ?? kubernetes?.workload ?? container.pod?.container ?? container.name;
}

function nameByPattern(args: readonly string[], { patterns }: NamePatterns): string | null {
  if (patterns.length === 0) return null;
  const line = args.slice(0, maxLineLength).join(" ").slice(0, maxLineLength);
  for (const { pattern, name } of patterns) {
    const match = pattern.exec(line);
    if (match) return name.replace(/\$(\d)/g, (_, group: string) => match[Number(group)] ?? "");
  }
  return null;
}

/** `/tmp/go-build12/b001/exe/main` is what `go run` makes: the directory it was called in says more. */
const temporaryBuild = /\/go-build\d+\//;

function nameOfExecutable(exe: string, args: readonly string[], workingDirectory: () => string | null): string | null {
  if (multiCall.has(basename(exe))) return basename(args[0] ?? exe);
  if (temporaryBuild.test(exe)) {
    const directory = workingDirectory();
    return (directory === null ? null : nameOfDirectory(directory)) ?? basename(exe);
  }
  return interpreterOf(exe) ?? nameOfFile(exe, null);
}

/** From everything but the port: what was configured for one, and what traffic says, is weighed by `nameInstance`. Null when nothing names it. */
export function nameProcess(process: NamedProcess, rules: NamePatterns): ServiceName | null {
  const { exe, cgroup, processName, container, kubernetes } = process;
  const args = process.arguments;
  const program = exe ?? processName ?? "";
  const interpreter = interpreterOf(program);
  const wellKnown = (): string | null => (basename(program) === "beam.smp" ? erlangNameOf(args) : wellKnownProgramOf(program));
  const attempts: [NamedBy, () => string | null][] = [
    ["kubernetes", () => kubernetes?.app ?? null],
    ["environment", () => nameOfEnvironment(process.environment)],
    ["systemd-unit", () => (cgroup === null ? null : systemdUnitOf(cgroup))],
    ["container", () => nameOfContainer(container, kubernetes)],
    ["pattern", () => nameByPattern(args, rules)],
    ["pattern", wellKnown],
    ["script", () => process.script],
    ["executable", () => (exe === null ? null : nameOfExecutable(exe, args, process.workingDirectory))],
    ["process-name", () => processName],
  ];
  for (const [namedBy, attempt] of attempts) {
    const service = cleanName(attempt());
    // An interpreter without a script says no more than the name of the process would.
    const isBare = namedBy === "executable" && interpreter !== null;
    if (service !== null) return { service, namedBy, confidence: nameConfidence[isBare ? "process-name" : namedBy] };
  }
  return null;
}

export interface InstanceQuestion {
  /** From nameProcess; null when the owner is not known. */
  process: ServiceName | null;
  /** Null for a worker that only calls out. */
  port: number | null;
  /** `coral connect`. */
  manual?: string | undefined;
  /** The config's port mapping. */
  mapped?: string | undefined;
  /** Seen in traffic: an HTTP host or gRPC service. */
  traffic?: string | undefined;
}

/** The name of one instance at one port: people first, then whatever is surest. */
export function nameInstance({ process, port, manual, mapped, traffic }: InstanceQuestion): ServiceName {
  const candidates: [NamedBy, string | undefined][] = [
    ["manual", manual],
    ["config", mapped],
  ];
  for (const [namedBy, name] of candidates) {
    const service = cleanName(name);
    if (service !== null) return { service, namedBy, confidence: nameConfidence[namedBy] };
  }
  const seen = cleanName(traffic);
  if (seen !== null && (process?.confidence ?? 0) < nameConfidence.traffic) {
    return { service: seen, namedBy: "traffic", confidence: nameConfidence.traffic };
  }
  return process ?? { service: port === null ? "unknown" : `unknown-${port}`, namedBy: "port", confidence: nameConfidence.port };
}
