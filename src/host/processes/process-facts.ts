/** What Coral keeps of a process: what it is, who runs it and where, with its command line and environment redacted. */

import { printable } from "../../base/escape-text.ts";
import { type RedactionRules, redactEnvironment } from "../../redact/index.ts";
import { systemdUnitIn } from "../cgroups/cgroup-names.ts";
import { processCgroup } from "../cgroups/process-cgroup.ts";
import { bufferBytes, type HostRoot } from "../files/host-root.ts";
import {
  type ContainerFacts,
  type ContainerId,
  type ContainerReader,
  type ContainerRuntime,
  containerOf,
} from "../naming/container-facts.ts";
import { type KubernetesFacts, type PodLabels, readKubernetesFacts } from "../naming/kubernetes-facts.ts";
import { interpreterOf, scriptNameOf } from "../naming/script-name.ts";
import { type NamePatterns, nameProcess, type ServiceName } from "../naming/service-name.ts";
import type { CommandLines } from "./command-lines.ts";
import type { ExecutableBuilds, ExecutableFile } from "./executable-builds.ts";
import type { ProcessEntry } from "./process-table.ts";
import type { UserNames } from "./user-names.ts";

export interface ProcessFacts {
  readonly entry: ProcessEntry;
  /** From everything but port, `coral connect` and traffic; null when nothing names it. */
  readonly name: ServiceName | null;
  /** Null when the agent may not look. */
  readonly exe: string | null;
  /** True when the file was replaced or removed since the process started. */
  readonly isExeGone: boolean;
  /** What runs inside an interpreter; null for other programs and when no script is to be seen. */
  readonly script: string | null;
  /** Redacted. */
  readonly commandLine: string | null;
  /** JSON object of the variables that are kept, redacted; null when there are none. */
  readonly environment: string | null;
  /** Effective. */
  readonly userId: number;
  readonly userName: string | null;
  readonly cgroup: string | null;
  /** Short id, or the name for runtimes that give none. */
  readonly containerId: string | null;
  readonly containerName: string | null;
  readonly containerRuntime: ContainerRuntime | null;
  readonly unit: string | null;
  /** Null when the executable cannot be read; its build is null while it is being hashed. */
  readonly file: ExecutableFile | null;
}

export interface FactsRules extends NamePatterns {
  redaction: RedactionRules;
  /** Null switches pod labels off. */
  kubernetesLabel: string | null;
}

export interface FactsSources {
  root: HostRoot;
  users: UserNames;
  containers: ContainerReader;
  builds: ExecutableBuilds;
  pods: PodLabels;
  places: PlaceMemory;
  commandLines: CommandLines;
  /** Emptied by the caller when the rules change. */
  environments: EnvironmentMemory;
}

const maxCommandBytes = 128 * 1024;
const maxEnvironmentBytes = 256 * 1024;
const deletedMark = / \(deleted\)$/;

function argumentsOf(command: string): string[] {
  let end = command.length;
  while (end > 0 && command.charCodeAt(end - 1) === 0) end--;
  return command.slice(0, end).split("\0");
}

function readUserId(root: HostRoot, pid: number): number {
  // The directory belongs to the process's user, but to root for programs that changed their user.
  const owner = root.stat(`/proc/${pid}`)?.userId ?? 0;
  if (owner !== 0) return owner;
  const effective = /^Uid:\s+\d+\s+(\d+)/m.exec(root.readBytes(`/proc/${pid}/status`)?.toString("latin1") ?? "")?.[1];
  return Number(effective ?? 0);
}

/** One read where one is enough; null when the process has ended. */
function readSmall(root: HostRoot, path: string, maxBytes: number): string | null {
  const bytes = root.readBytes(path);
  return bytes !== null && bytes.length >= bufferBytes ? root.readText(path, undefined, maxBytes) : (bytes?.toString("utf8") ?? null);
}

/** What is kept of an environment. The rest of it does not leave `readEnvironment`. */
interface Environment {
  /** JSON object of the variables that are stored; null when there are none. */
  text: string | null;
  /** Those that carry a name or a pod. */
  variables: ReadonlyMap<string, string>;
}

/**
 * Environments by program image. A child that was forked and did not call exec(2) has the stack of its parent at the same random place, and
 * with it the same environment: the hundred workers of a server are read once. Null where the kernel does not place stacks at random.
 */
export type EnvironmentMemory = Map<string, Environment> | null;
const maxEnvironments = 2048;

export function createEnvironmentMemory(root: HostRoot): EnvironmentMemory {
  return /^[12]\b/.test(root.readText("/proc/sys/kernel/randomize_va_space") ?? "") ? new Map() : null;
}

function isTelling(name: string): boolean {
  return (
    /^(?:OTEL_|K8S_|KUBERNETES_|POD_|LABEL_|DD_SERVICE|ELASTIC_|SPRING_APPLICATION_NAME|SERVICE_NAME|HOSTNAME)/.test(name) ||
    name.endsWith("_LABEL")
  );
}

function readEnvironment({ root, environments }: FactsSources, entry: ProcessEntry, exe: string | null, rules: FactsRules): Environment {
  const key = entry.execMark === 0 || exe === null ? null : `${entry.execMark} ${exe} ${entry.name}`;
  const known = key === null ? undefined : environments?.get(key);
  if (known) return known;
  const entries = (readSmall(root, `/proc/${entry.pid}/environ`, maxEnvironmentBytes) ?? "").split("\0");
  const variables = new Map<string, string>();
  for (const item of entries) {
    const end = item.indexOf("=");
    if (end <= 0 || end > 64) continue;
    const name = item.slice(0, end);
    if (isTelling(name)) variables.set(name, item.slice(end + 1));
  }
  const environment = { text: textOf(redactEnvironment(entries, rules.redaction)), variables };
  if (environments && key !== null) {
    if (environments.size >= maxEnvironments) environments.clear();
    environments.set(key, environment);
  }
  return environment;
}

/** Made once, as it goes into a row of every scan. */
function textOf(environment: Record<string, string>): string | null {
  const text = JSON.stringify(environment);
  return text === "{}" ? null : text;
}

interface Place {
  cgroup: string | null;
  container: ContainerId | null;
  unit: string | null;
}

/** By the text of `/proc/<pid>/cgroup`, which all processes of a service share. */
export type PlaceMemory = Map<string, Place>;
const maxPlaces = 4096;

function readPlace({ root, places }: FactsSources, pid: number): Place {
  const text = root.readBytes(`/proc/${pid}/cgroup`)?.toString("utf8") ?? "";
  const known = places.get(text);
  if (known) return known;
  const cgroup = processCgroup(text);
  const place = { cgroup, container: cgroup === null ? null : containerOf(cgroup), unit: cgroup === null ? null : systemdUnitIn(cgroup) };
  if (places.size >= maxPlaces) places.clear();
  places.set(text, place);
  return place;
}

function containerFields(container: ContainerFacts | null): Pick<ProcessFacts, "containerId" | "containerName" | "containerRuntime"> {
  if (!container) return { containerId: null, containerName: null, containerRuntime: null };
  const { id, runtime, name } = container;
  return { containerId: /^[0-9a-f]{64}$/.test(id) ? id.slice(0, 12) : printable(id, 64), containerName: name, containerRuntime: runtime };
}

/** Null when the process has ended. The raw command line and environment do not leave this function. */
export function readProcessFacts(sources: FactsSources, entry: ProcessEntry, rules: FactsRules): ProcessFacts | null {
  const { root, users, builds, pods, containers, commandLines } = sources;
  const { pid } = entry;
  const command = readSmall(root, `/proc/${pid}/cmdline`, maxCommandBytes);
  if (command === null) return null;
  const args = argumentsOf(command);
  const link = root.readLink(`/proc/${pid}/exe`);
  const exe = link === null || link === "" ? null : printable(link.replace(deletedMark, ""), 512);
  const isExeGone = link !== null && deletedMark.test(link);
  const { cgroup, container: containerId, unit } = readPlace(sources, pid);
  const container = containerId && containers.of(containerId);
  const { text: environment, variables } = readEnvironment(sources, entry, exe, rules);
  const label = rules.kubernetesLabel;
  const kubernetes: KubernetesFacts | null =
    label === null ? null : readKubernetesFacts(root, { pid, cgroup, environment: variables, container, label }, pods);
  let directory: string | null | undefined;
  const workingDirectory = (): string | null => (directory ??= root.readLink(`/proc/${pid}/cwd`));
  const userId = readUserId(root, pid);
  const interpreter = interpreterOf(exe ?? entry.name);
  const script = interpreter === null ? null : scriptNameOf(interpreter, args, workingDirectory());
  const name = nameProcess(
    { exe, processName: entry.name, arguments: args, workingDirectory, script, environment: variables, cgroup, container, kubernetes },
    rules,
  );
  return {
    entry,
    name,
    exe,
    isExeGone,
    script,
    commandLine: command === "" ? null : commandLines.redacted(command, args, rules.redaction),
    environment,
    userId,
    userName: users.of(userId, container ? { key: container.id, rootOf: `/proc/${pid}/root` } : undefined),
    cgroup,
    ...containerFields(container),
    unit,
    // Through the process when another file may lie under that name: in a container, or after a replacement.
    file: exe === null ? null : builds.of(isExeGone || container || !exe.startsWith("/") ? `/proc/${pid}/exe` : exe),
  };
}
