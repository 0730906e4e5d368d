/** The name of a process, its source, and the confidence in it. */

import { basename } from "node:path";
import { printable } from "../../base/escape-text.ts";
import { isSecretText } from "../../redact/index.ts";
import { systemdUnitOf } from "../cgroups/cgroup-names.ts";
import type { ContainerFacts } from "./container-facts.ts";
import type { KubernetesFacts } from "./kubernetes-facts.ts";
import { managedNameVariable } from "./managed-app.ts";
import { isGenericName, nameOfDirectory, nameOfFile } from "./path-name.ts";
import { interpreterOf } from "./script-name.ts";
import { erlangNameOf, wellKnownProgramOf } from "./well-known-programs.ts";

/** Sources of names, best first. */
export type NamedBy =
  | "manual"
  | "config"
  | "kubernetes"
  | "environment"
  | "systemd-unit"
  | "container"
  | "pattern"
  | "script"
  | "executable"
  | "process-name"
  | "traffic"
  | "port";

export const nameConfidence: Readonly<Record<NamedBy, number>> = {
  manual: 1,
  config: 1,
  kubernetes: 0.95,
  environment: 0.92,
  "systemd-unit": 0.85,
  container: 0.85,
  pattern: 0.8,
  script: 0.8,
  executable: 0.7,
  "process-name": 0.3,
  traffic: 0.2,
  port: 0,
};

/** Configured by users. */
export interface NamePatterns {
  /** Tried on the command line, in order; `$1` in the name is what the first group matched. */
  patterns: readonly { pattern: RegExp; name: string }[];
}

export interface NamedProcess {
  exe: string | null;
  /** The kernel's name of the process, at most 15 characters. */
  processName: string | null;
  /** argv; read but never stored. */
  arguments: readonly string[];
  /** Called only if the name needs it. */
  workingDirectory: () => string | null;
  /** From scriptNameOf: what an interpreter runs; null for other programs. */
  script: string | null;
  /** From the manifest of a compiled program; called only if its own name is generic. */
  packageName?: () => string | null;
  environment: ReadonlyMap<string, string>;
  cgroup: string | null;
  container: Pick<ContainerFacts, "name" | "service" | "pod"> | null;
  kubernetes: (Pick<KubernetesFacts, "app" | "workload"> & Partial<Pick<KubernetesFacts, "container" | "isMainContainer">>) | null;
}

/** A label; services are identified by their origin. */
export interface GivenName {
  name: string;
  namedBy: NamedBy;
  /** 0..1. */
  confidence: number;
}

const maxNameLength = 64;
/** Of a command line, for configured patterns. */
const maxLineLength = 4096;
/** Files that contain several programs, selected by argv[0]. */
export const multiCall = new Set(["busybox", "toybox", "coreutils"]);
/** In order of precedence. */
const nameVariables = [
  "OTEL_SERVICE_NAME",
  "SERVICE_NAME",
  "DD_SERVICE",
  "ELASTIC_APM_SERVICE_NAME",
  "SPRING_APPLICATION_NAME",
  managedNameVariable,
];

/** Most names need no change. */
const plainName = /^[A-Za-z0-9][\w.@:+-]{0,61}[A-Za-z0-9]$/;

/** Letters, digits and `._@:+-`; everything else, blanks included, becomes a hyphen. Null when nothing is left, or it holds a secret. */
export function cleanName(name: string | null | undefined): string | null {
  if (name === null || name === undefined || name === "" || isSecretText(name)) return null;
  if (plainName.test(name)) return name;
  const clean = printable(name, maxNameLength * 2)
    .replace(/[^\p{L}\p{N}._@:+-]+/gu, "-")
    .replace(/^[-.]+|-+$/g, "")
    .slice(0, maxNameLength);
  return /[\p{L}\p{N}]/u.test(clean) ? printable(clean, maxNameLength) : null;
}

/** The name in a program's environment. */
export function nameOfEnvironment(environment: ReadonlyMap<string, string>): string | null {
  for (const variable of nameVariables) {
    const name = cleanName(environment.get(variable));
    if (name !== null) return name;
    // OTEL_RESOURCE_ATTRIBUTES ranks right after OTEL_SERVICE_NAME.
    const attributes = variable === "OTEL_SERVICE_NAME" ? environment.get("OTEL_RESOURCE_ATTRIBUTES") : undefined;
    const attribute = cleanName(/(?:^|,)\s*service\.name=([^,]+)/.exec(attributes ?? "")?.[1]);
    if (attribute !== null) return attribute;
  }
  return null;
}

/** Compose and Kubernetes give each replica its own name; the shared part is the service. */
function nameOfContainer(container: NamedProcess["container"], kubernetes: NamedProcess["kubernetes"]): string | null {
  if (!container) return kubernetes?.workload ?? null;
  if (kubernetes?.container && !kubernetes.isMainContainer) return kubernetes.container;
  return container.service ?? kubernetes?.workload ?? container.pod?.container ?? container.name;
}

/** Of several containers in a pod, one has the pod's name; the others have their own. */
function nameOfPod(kubernetes: NamedProcess["kubernetes"]): string | null {
  if (!kubernetes || kubernetes.app === null) return null;
  return !kubernetes.container || kubernetes.isMainContainer ? kubernetes.app : kubernetes.container;
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

/** A build by `go run`, `/tmp/go-build12/b001/exe/main`: the working directory is a better name. */
export const temporaryBuild = /\/go-build\d+\//;

/**
 * `exec -a name program`: a plain word that is neither the program's name nor a title that it gave itself. Null when argv[0] is none. A title that
 * a script gives itself replaces all arguments.
 */
export function givenNameOf(exe: string, args: readonly string[]): string | null {
  const [name = ""] = args;
  const own = basename(exe);
  if (!/^[A-Za-z][\w.-]{1,63}$/.test(name) || wellKnownProgramOf(exe) !== null || isGenericName(name)) return null;
  if (interpreterOf(exe) !== null) return args.length > 1 && interpreterOf(name) === null ? name : null;
  // `awk` is mawk, `gate` is gate-1.4.2, `foo` is .foo-wrapped: names of the same file.
  return own.includes(name) || name.includes(own) ? null : name;
}

function nameOfExecutable(exe: string, args: readonly string[], workingDirectory: () => string | null): string | null {
  if (multiCall.has(basename(exe))) return basename(args[0] ?? exe);
  if (temporaryBuild.test(exe)) {
    const directory = workingDirectory();
    return (directory === null ? null : nameOfDirectory(directory)) ?? basename(exe);
  }
  return interpreterOf(exe) ?? givenNameOf(exe, args) ?? nameOfFile(exe, null);
}

/** The package's name replaces a generic one. */
function specificName(name: string | null, packageName: NamedProcess["packageName"]): string | null {
  return name !== null && isGenericName(name) ? (packageName?.() ?? name) : name;
}

/** From everything but the port; `nameInstance` weighs configured ports and traffic. Null if there is no name. */
export function nameProcess(process: NamedProcess, rules: NamePatterns): GivenName | null {
  const { exe, cgroup, processName, container, kubernetes } = process;
  const args = process.arguments;
  const program = exe ?? processName ?? "";
  const interpreter = interpreterOf(program);
  const wellKnown = (): string | null => (basename(program) === "beam.smp" ? erlangNameOf(args) : wellKnownProgramOf(program));
  const attempts: [NamedBy, () => string | null][] = [
    ["kubernetes", () => nameOfPod(kubernetes)],
    ["environment", () => nameOfEnvironment(process.environment)],
    ["systemd-unit", () => (cgroup === null ? null : systemdUnitOf(cgroup))],
    ["container", () => nameOfContainer(container, kubernetes)],
    ["pattern", () => nameByPattern(args, rules)],
    ["pattern", wellKnown],
    ["executable", () => (interpreter === null ? null : givenNameOf(program, args))],
    ["script", () => process.script],
    ["executable", () => (exe === null ? null : specificName(nameOfExecutable(exe, args, process.workingDirectory), process.packageName))],
    ["process-name", () => processName],
  ];
  for (const [namedBy, attempt] of attempts) {
    const name = cleanName(attempt());
    // An interpreter without a script is no better than the process name.
    const isBare = namedBy === "executable" && name === interpreter;
    if (name !== null) return { name, namedBy, confidence: nameConfidence[isBare ? "process-name" : namedBy] };
  }
  return null;
}

export interface NameSources {
  /** From nameProcess; null when the owner is not known. */
  process: GivenName | null;
  /** Null for a worker with only outgoing connections. */
  port: number | null;
  /** `coral connect`. */
  manual?: string | undefined;
  /** The config's port mapping. */
  mapped?: string | undefined;
  /** Seen in traffic: an HTTP host or gRPC service. Clients choose both, so it is used only if there is no other name. */
  traffic?: string | undefined;
}

/** The name of one instance at one port: user-given names first, then the process's, then those that clients use. */
export function nameInstance({ process, port, manual, mapped, traffic }: NameSources): GivenName {
  const candidates: [NamedBy, string | undefined][] = [
    ["manual", manual],
    ["config", mapped],
  ];
  for (const [namedBy, given] of candidates) {
    const name = cleanName(given);
    if (name !== null) return { name, namedBy, confidence: nameConfidence[namedBy] };
  }
  if (process !== null) return process;
  const seen = cleanName(traffic);
  if (seen !== null) return { name: seen, namedBy: "traffic", confidence: nameConfidence.traffic };
  return { name: port === null ? "unknown" : `unknown-${port}`, namedBy: "port", confidence: nameConfidence.port };
}
