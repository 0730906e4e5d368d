/**
 * A control group per command, if the agent may create any. It limits the command and contains all its processes, including daemonized ones. All groups
 * of an agent are in one directory named after it, so that the next agent can clean up after a killed one.
 */

import { randomBytes } from "node:crypto";
import { existsSync, mkdirSync, readdirSync, readFileSync, rmdirSync, writeFileSync } from "node:fs";
import { mkdir, rmdir } from "node:fs/promises";
import type { Logger } from "../../base/log.ts";
import { pidNamespaceId, readCgroupMounts, startTicksOf } from "../../host/index.ts";

/** For all processes of a command together. */
export interface GroupLimits {
  memoryBytes: number;
  cpus: number;
  processes: number;
}

/** The control group of one command, in every hierarchy that the agent may use. */
export interface CommandGroup {
  /** A process joins by writing `0` to these files. */
  readonly joinFiles: readonly string[];
  pids(): number[];
  /** Kills all processes in the group; true when it is empty. */
  kill(): boolean;
  /** False while a process is in it. */
  remove(): Promise<boolean>;
}

/** The control groups of this agent. */
export interface CommandGroups {
  /** Directories of this agent's groups; empty if it may not create any. */
  readonly parents: readonly string[];
  /** Limits that are enforced: `memory`, `cpu`, `pids`. */
  readonly limited: readonly string[];
  /** Undefined limits: unlimited. Resolves with undefined if no group can be created. */
  create(name: string, limits: GroupLimits | undefined): Promise<CommandGroup | undefined>;
  close(): void;
}

interface Tree {
  version: 1 | 2;
  parent: string;
  controllers: string[];
}

const prefix = "coral-exec";
/** The kernel's default period of CPU bandwidth control. The quota is `cpus` times this. */
const periodUs = 100_000;

export interface OpenGroupsOptions {
  log: Logger;
  /** For tests; default: the trees of this machine. */
  mounts?: ReturnType<typeof readCgroupMounts>;
}

/** Creates this agent's directory; kills processes and removes groups that former agents left behind. */
export function openCommandGroups({ log, mounts = readCgroupMounts() }: OpenGroupsOptions): CommandGroups {
  // The suffix distinguishes several instances in one process.
  const own = [prefix, pidNamespaceId(), process.pid, startTicksOf(process.pid) ?? "0", randomBytes(3).toString("hex")].join(".");
  const trees: Tree[] = [];
  for (const { version, directory, controllers } of mounts) {
    removeLeftovers(directory, log);
    const parent = `${directory}/${own}`;
    if (!attempt(() => mkdirSync(parent, { recursive: true }))) continue;
    if (version === 2) enableControllers(directory, parent, controllers);
    trees.push({ version, parent, controllers: version === 1 ? controllers : enabledIn(parent) });
  }
  return {
    parents: trees.map(({ parent }) => parent),
    limited: [...new Set(trees.flatMap(({ controllers }) => controllers))].sort(),
    create: (name, limits) => createGroup(trees, name, limits),
    close: () => {
      for (const { parent } of trees) {
        for (const directory of groupsIn(parent)) attempt(() => rmdirSync(directory));
        attempt(() => rmdirSync(parent));
      }
    },
  };
}

/** A cgroup v2 passes controllers to its children only if `cgroup.subtree_control` names them, and only while it contains no process itself. */
function enableControllers(directory: string, parent: string, controllers: readonly string[]): void {
  for (const controller of controllers) {
    attempt(() => writeFileSync(`${directory}/cgroup.subtree_control`, `+${controller}`));
    attempt(() => writeFileSync(`${parent}/cgroup.subtree_control`, `+${controller}`));
  }
}

function enabledIn(parent: string): string[] {
  return (readText(`${parent}/cgroup.subtree_control`) ?? "").split(/\s+/).filter((word) => word !== "");
}

/** Groups are created and removed asynchronously: the kernel makes that wait, for milliseconds, while a process joins one. */
async function createGroup(trees: readonly Tree[], name: string, limits: GroupLimits | undefined): Promise<CommandGroup | undefined> {
  const made: { directory: string; version: 1 | 2 }[] = [];
  for (const tree of trees) {
    const directory = `${tree.parent}/${name}`;
    if (!(await isDone(mkdir(directory)))) continue;
    made.push({ directory, version: tree.version });
    if (limits) for (const [file, value] of limitFiles(tree, limits)) attempt(() => writeFileSync(`${directory}/${file}`, value));
  }
  if (made.length === 0) return undefined;
  const pids = (): number[] => [...new Set(made.flatMap(({ directory }) => pidsIn(directory)))];
  return {
    joinFiles: made.map(({ directory }) => `${directory}/cgroup.procs`),
    pids,
    kill: () => {
      // No process can enter it on its own.
      const left = pids();
      if (left.length === 0) return true;
      for (const { directory, version } of made) if (version === 2) attempt(() => writeFileSync(`${directory}/cgroup.kill`, "1"));
      killEach(pids());
      return false;
    },
    remove: async () => {
      const removed = await Promise.all(made.map(async ({ directory }) => (await isDone(rmdir(directory))) || !existsSync(directory)));
      return removed.every(Boolean);
    },
  };
}

/** File names and values for the hierarchy's version. Controllers that the agent may not use are skipped. */
function limitFiles({ version, controllers }: Tree, { memoryBytes, cpus, processes }: GroupLimits): [string, string][] {
  const quotaUs = String(Math.max(1_000, Math.round(cpus * periodUs)));
  const files: Record<string, [string, string][]> =
    version === 2
      ? {
          memory: [
            ["memory.max", String(memoryBytes)],
            ["memory.swap.max", "0"],
            // Out of memory kills the whole group.
            ["memory.oom.group", "1"],
          ],
          cpu: [["cpu.max", `${quotaUs} ${periodUs}`]],
          pids: [["pids.max", String(processes)]],
        }
      : {
          memory: [["memory.limit_in_bytes", String(memoryBytes)]],
          cpu: [
            ["cpu.cfs_period_us", String(periodUs)],
            ["cpu.cfs_quota_us", quotaUs],
          ],
          pids: [["pids.max", String(processes)]],
        };
  return controllers.flatMap((controller) => files[controller] ?? []);
}

/** Groups of agents whose process has exited. Groups from other pid namespaces are kept, because their pids have no meaning here. */
function removeLeftovers(directory: string, log: Logger): void {
  const namespace = pidNamespaceId();
  for (const name of listDirectory(directory)) {
    const [first, itsNamespace, pid, ticks] = name.split(".");
    if (first !== prefix || itsNamespace !== namespace || startTicksOf(Number(pid)) === ticks) continue;
    let ended = 0;
    for (const group of groupsIn(`${directory}/${name}`)) {
      attempt(() => writeFileSync(`${group}/cgroup.kill`, "1"));
      const left = pidsIn(group);
      killEach(left);
      ended += left.length;
      // A group that is still emptying is removed by the next start.
      attempt(() => rmdirSync(group));
    }
    attempt(() => rmdirSync(`${directory}/${name}`));
    if (ended > 0) log.warn("killed command processes that a former agent left behind", { processes: ended });
  }
}

function groupsIn(parent: string): string[] {
  return listDirectory(parent).map((name) => `${parent}/${name}`);
}

function listDirectory(path: string): string[] {
  try {
    return readdirSync(path, { withFileTypes: true })
      .filter((entry) => entry.isDirectory())
      .map(({ name }) => name);
  } catch {
    // Gone or not readable: nothing to do.
    return [];
  }
}

function pidsIn(directory: string): number[] {
  return (readText(`${directory}/cgroup.procs`) ?? "")
    .split("\n")
    .map(Number)
    .filter((pid) => pid > 1 && pid !== process.pid);
}

function killEach(pids: readonly number[]): void {
  for (const pid of pids) attempt(() => process.kill(pid, "SIGKILL"));
}

function readText(path: string): string | undefined {
  try {
    return readFileSync(path, "utf8");
  } catch {
    // The group was removed, or this kernel does not have the file.
    return undefined;
  }
}

/** `attempt` for asynchronous work. */
async function isDone(work: Promise<unknown>): Promise<boolean> {
  try {
    await work;
    return true;
  } catch (error) {
    if (error instanceof Error && "syscall" in error) return false;
    throw error;
  }
}

/** False if the system call failed; the caller handles it. */
function attempt(act: () => unknown): boolean {
  try {
    act();
    return true;
  } catch (error) {
    if (error instanceof Error && "syscall" in error) return false;
    throw error;
  }
}
