/** Facts about a process that Coral keeps: program, user, container, with redacted command line and environment. */

import { printable } from "../../base/escape-text.ts";
import { isSecretText, type RedactionRules, redactEnvironment, redactText, redactVariable } from "../../redact/index.ts";
import { systemdUnitIn, systemdUnitOf } from "../cgroups/cgroup-names.ts";
import { processCgroup } from "../cgroups/process-cgroup.ts";
import { bufferBytes, type HostRoot } from "../files/host-root.ts";
import {
  type ContainerFacts,
  type ContainerId,
  type ContainerReader,
  type ContainerRuntime,
  containerOf,
} from "../naming/container-facts.ts";
import { type PodLabels, readKubernetesFacts } from "../naming/kubernetes-facts.ts";
import { type ManagedApp, managedAppOf, managedNameOf, managedNameVariable } from "../naming/managed-app.ts";
import { isGenericName } from "../naming/path-name.ts";
import { interpreterOf, isLauncher, scriptNameOf } from "../naming/script-name.ts";
import { type GivenName, type NamePatterns, nameProcess } from "../naming/service-name.ts";
import { originOfProcess, type ProcessOrigin } from "../naming/service-origin.ts";
import type { CommandLines } from "./command-lines.ts";
import type { ExecutableBuilds, ExecutableFile } from "./executable-builds.ts";
import { crateNameOf, packageNameOf } from "./package-name.ts";
import type { ProcessEntry } from "./process-table.ts";
import type { ScriptBuilds, ScriptProgram } from "./script-builds.ts";
import type { UserNames } from "./user-names.ts";

export interface ProcessFacts {
  readonly entry: ProcessEntry;
  /** From all sources except port, `coral connect` and traffic; null without a name. */
  readonly name: GivenName | null;
  /** The identity of the process, without its ports. It does not change while the process runs. */
  readonly origin: ProcessOrigin;
  /** Null if the agent lacks permission. */
  readonly exe: string | null;
  /** True when the file was replaced or removed since the process started. */
  readonly isExeGone: boolean;
  /** Name of the script or module that an interpreter runs; null for other programs, and if no script is visible. */
  readonly script: string | null;
  /** Ports in the variables of a worker of Node's cluster module, whose parent listens for it. Null for other processes. */
  readonly clusterPorts: readonly number[] | null;
  /** Redacted. */
  readonly commandLine: string | null;
  /** JSON object of the variables that are kept, redacted; null when there are none. */
  readonly environment: string | null;
  /** Effective. */
  readonly userId: number;
  readonly userName: string | null;
  readonly cgroup: string | null;
  /** Short id, or the name for runtimes without ids. */
  readonly containerId: string | null;
  readonly containerName: string | null;
  readonly containerRuntime: ContainerRuntime | null;
  readonly unit: string | null;
  /** The program that an interpreter runs, as it was when the process started; null for other programs, and if it cannot be found. */
  readonly program: ScriptProgram | null;
  /** File of the program, else of the executable. Null if it is unknown or not readable; its build is null until it is hashed. */
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
  scripts: ScriptBuilds;
  pods: PodLabels;
  cgroups: CgroupCache;
  commandLines: CommandLines;
  /** Emptied by the caller when the rules change. */
  environments: EnvironmentCache;
}

const maxCommandBytes = 128 * 1024;
const maxEnvironmentBytes = 256 * 1024;
/** Characters of a variable that carries a name; a list of resource attributes may be long. */
const maxVariableLength = 4096;
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

/** Reads a small file with a single call if it fits the buffer; null if the process has exited. */
function readSmall(root: HostRoot, path: string, maxBytes: number): string | null {
  const bytes = root.readBytes(path);
  return bytes !== null && bytes.length >= bufferBytes ? root.readText(path, undefined, maxBytes) : (bytes?.toString("utf8") ?? null);
}

/** The kept part of an environment. Everything else stays in `readEnvironment`. */
interface Environment {
  /** JSON object of the variables that are stored; null when there are none. */
  text: string | null;
  /** Variables that carry the name of a service or pod. */
  variables: ReadonlyMap<string, string>;
  /** The app that PM2 runs in this process or in one of its ancestors. */
  managed: ManagedApp | null;
  clusterPorts: readonly number[] | null;
}

/**
 * Environments by program image. A child that was forked and did not call exec(2) has its stack at the same random address as its parent, and thus
 * the same environment: a server with a hundred workers is read once. Null if the kernel does not randomize stack addresses.
 */
export type EnvironmentCache = Map<string, Environment> | null;
const maxEnvironments = 2048;

export function createEnvironmentCache(root: HostRoot): EnvironmentCache {
  return /^[12]\b/.test(root.readText("/proc/sys/kernel/randomize_va_space") ?? "") ? new Map() : null;
}

function isNamingVariable(name: string): boolean {
  return (
    /^(?:OTEL_|K8S_|KUBERNETES_|POD_|LABEL_|DD_SERVICE|ELASTIC_|SPRING_APPLICATION_NAME|SERVICE_NAME|HOSTNAME)/.test(name) ||
    name.endsWith("_LABEL")
  );
}

function imageOf({ execMark, name }: ProcessEntry, exe: string | null): string | null {
  return execMark === 0 || exe === null ? null : `${execMark} ${exe} ${name}`;
}

function readEnvironment({ root, environments }: FactsSources, entry: ProcessEntry, exe: string | null, rules: FactsRules): Environment {
  const key = imageOf(entry, exe);
  const known = key === null ? undefined : environments?.get(key);
  if (known) return known;
  const entries = (readSmall(root, `/proc/${entry.pid}/environ`, maxEnvironmentBytes) ?? "").split("\0");
  const variables = new Map<string, string>();
  const raw = (name: string): string | undefined => entries.find((item) => item.startsWith(`${name}=`))?.slice(name.length + 1);
  for (const item of entries) {
    const end = item.indexOf("=");
    if (end <= 0 || end > 64) continue;
    const name = item.slice(0, end);
    if (!isNamingVariable(name)) continue;
    const value = redactVariable(name, item.slice(end + 1), rules.redaction, maxVariableLength);
    // In an attribute list only the secret is masked; any other value that contains a secret is dropped.
    if (name === "OTEL_RESOURCE_ATTRIBUTES" || !isSecretText(value)) variables.set(name, value);
  }
  const isClusterWorker = raw("NODE_UNIQUE_ID") !== undefined;
  const environment = {
    text: textOf(redactEnvironment(entries, rules.redaction)),
    variables,
    managed: managedAppOf(raw),
    clusterPorts: isClusterWorker ? portsIn([raw("PORT") ?? "", raw("pm2_env") ?? ""]) : null,
  };
  if (environments && key !== null) {
    if (environments.size >= maxEnvironments) environments.clear();
    environments.set(key, environment);
  }
  return environment;
}

/** Reads `PORT=80`, and `"API_PORT":"80"` in the JSON that PM2 passes on. */
function portsIn([port = "", json = ""]: readonly string[]): readonly number[] {
  const found = [...json.matchAll(/"(?:\w{1,32}_)?PORT":"?(\d{1,5})"?[,}]/gi)].map((match) => Number(match[1]));
  return [...(/^\d{1,5}$/.test(port) ? [Number(port)] : []), ...found].slice(0, 16);
}

/** Serialised once, because every scan writes it to a row. */
function textOf(environment: Record<string, string>): string | null {
  const text = JSON.stringify(environment);
  return text === "{}" ? null : text;
}

interface CgroupFacts {
  cgroup: string | null;
  container: ContainerId | null;
  unit: string | null;
}

/** By the text of `/proc/<pid>/cgroup`, which all processes of a service share. */
export type CgroupCache = Map<string, CgroupFacts>;
const maxCgroups = 4096;

function readCgroupFacts({ root, cgroups }: FactsSources, pid: number): CgroupFacts {
  const text = root.readBytes(`/proc/${pid}/cgroup`)?.toString("utf8") ?? "";
  const known = cgroups.get(text);
  if (known) return known;
  const cgroup = processCgroup(text);
  const facts = { cgroup, container: cgroup === null ? null : containerOf(cgroup), unit: cgroup === null ? null : systemdUnitIn(cgroup) };
  if (cgroups.size >= maxCgroups) cgroups.clear();
  cgroups.set(text, facts);
  return facts;
}

/** Null for values that must not be stored unchanged. */
function storable(text: string | null): string | null {
  return text === null || isSecretText(text) ? null : text;
}

function containerFields(container: ContainerFacts | null): Pick<ProcessFacts, "containerId" | "containerName" | "containerRuntime"> {
  if (!container) return { containerId: null, containerName: null, containerRuntime: null };
  const { id, runtime, name } = container;
  return {
    containerId: /^[0-9a-f]{64}$/.test(id) ? id.slice(0, 12) : printable(id, 64),
    containerName: storable(name),
    containerRuntime: runtime,
  };
}

/** From an earlier reading of the same process; programs overwrite their command line, change their directory, and their files change. */
export interface SettledFacts {
  origin: ProcessOrigin | undefined;
  /** Undefined: search for it again. A process that is just starting has no command line yet. */
  program: ScriptProgram | undefined;
}

interface Executable {
  exe: string | null;
  /** True when the file was replaced or removed since the process started. */
  isGone: boolean;
}

function readExecutable(root: HostRoot, pid: number): Executable {
  const link = root.readLink(`/proc/${pid}/exe`);
  const exe = link === null || link === "" ? null : printable(link.replace(deletedMark, ""), 512);
  return { exe, isGone: link !== null && deletedMark.test(link) };
}

/** Variables that name the process, PM2's included. */
function namingVariables({ variables, managed }: Environment, args: readonly string[], rules: FactsRules): ReadonlyMap<string, string> {
  const name = managed && managedNameOf(managed, args);
  if (name === null) return variables;
  const value = redactVariable("name", name, rules.redaction);
  return isSecretText(value) ? variables : new Map([...variables, [managedNameVariable, value]]);
}

/** The package's name replaces a generic script name. */
function specificScript(root: HostRoot, script: string | null, program: ScriptProgram | null): string | null {
  if (script === null || program === null || !(isGenericName(script) || isLauncher(script))) return script;
  return storable(packageNameOf(root, program)) ?? script;
}

type SeenProgram = Pick<ProcessFacts, "exe"> & { arguments: readonly string[]; container: ContainerFacts | null };

/** Null for programs without an interpreter. */
function readProgram(
  { scripts, environments }: FactsSources,
  entry: ProcessEntry,
  interpreter: string | null,
  { exe, arguments: args, container }: SeenProgram,
  workingDirectory: () => string | null,
): ScriptProgram | null {
  if (interpreter === null) return null;
  return scripts.of({
    pid: entry.pid,
    startTicks: entry.startTicks,
    isContained: container !== null,
    image: environments === null ? null : imageOf(entry, exe),
    interpreter,
    arguments: args,
    workingDirectory: workingDirectory(),
  });
}

/** Null when the process has ended. The raw command line and environment do not leave this function. */
export function readProcessFacts(
  sources: FactsSources,
  entry: ProcessEntry,
  rules: FactsRules,
  settled?: SettledFacts,
): ProcessFacts | null {
  const { root, users, builds, pods, containers, commandLines } = sources;
  const { pid } = entry;
  const command = readSmall(root, `/proc/${pid}/cmdline`, maxCommandBytes);
  if (command === null) return null;
  const args = argumentsOf(command);
  const { exe, isGone: isExeGone } = readExecutable(root, pid);
  const { cgroup, container: containerId, unit } = readCgroupFacts(sources, pid);
  const container = containerId && containers.of(containerId);
  const kept = readEnvironment(sources, entry, exe, rules);
  const environment = namingVariables(kept, args, rules);
  const label = rules.kubernetesLabel;
  const kubernetes = label === null ? null : readKubernetesFacts(root, { pid, cgroup, environment, container, label, containers }, pods);
  let directory: string | null | undefined;
  const workingDirectory = (): string | null => (directory ??= root.readLink(`/proc/${pid}/cwd`)?.replace(deletedMark, "") ?? null);
  const interpreter = interpreterOf(exe ?? entry.name);
  const seen = { exe, processName: entry.name, arguments: args, environment, container, kubernetes };
  const program = settled?.program ?? readProgram(sources, entry, interpreter, seen, workingDirectory);
  const script = interpreter && specificScript(root, storable(scriptNameOf(interpreter, args, workingDirectory())), program);
  const packageName = (): string | null =>
    exe?.startsWith("/") ? crateNameOf(root, `${container ? `/proc/${pid}/root` : ""}${exe}`) : null;
  const unitName = cgroup === null ? null : systemdUnitOf(cgroup);
  const redact = (text: string): string => redactText(text, rules.redaction);
  // Through the process if another file may have that name: in a container, or after a replacement.
  const executable = exe !== null && !isExeGone && !container && exe.startsWith("/") ? exe : `/proc/${pid}/exe`;
  const userId = readUserId(root, pid);
  return {
    entry,
    name: nameProcess({ ...seen, workingDirectory, script, cgroup, packageName }, rules),
    origin: settled?.origin ?? originOfProcess({ ...seen, workingDirectory: workingDirectory(), unit: unitName, redact }),
    exe,
    isExeGone,
    script,
    clusterPorts: kept.clusterPorts,
    commandLine: command === "" ? null : commandLines.redacted(command, args, rules.redaction),
    environment: kept.text,
    userId,
    userName: users.of(userId, container ? { key: container.id, rootOf: `/proc/${pid}/root` } : undefined),
    cgroup,
    ...containerFields(container),
    unit,
    program,
    file: program !== null ? program.atStart : exe === null ? null : builds.of(executable),
  };
}
