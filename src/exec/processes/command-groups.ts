/**
 * A control group for each command, where the agent may make some: it bounds the command, and holds every process that comes of it, however it forks away.
 * All groups of an agent lie in one directory that names it, so that what a killed agent left behind is found by the next one.
 */

import { randomBytes } from "node:crypto";
import { existsSync, mkdirSync, readdirSync, readFileSync, rmdirSync, writeFileSync } from "node:fs";
import { mkdir, rmdir } from "node:fs/promises";
import type { Logger } from "../../base/log.ts";
import { pidNamespaceId, readCgroupMounts, startTicksOf } from "../../host/index.ts";

export interface GroupLimits {
  memoryBytes: number;
  cpus: number;
  processes: number;
}

export interface CommandGroup {
  /** To be written `0` to by a process that joins. */
  readonly joinFiles: readonly string[];
  pids(): number[];
  /** Ends everything in it at once; true when nothing is left. */
  kill(): boolean;
  /** False while something runs in it. */
  remove(): Promise<boolean>;
}

export interface CommandGroups {
  /** Directories that hold this agent's groups; empty when it may make none. */
  readonly parents: readonly string[];
  /** Which limits hold: `memory`, `cpu`, `pids`. */
  readonly limited: readonly string[];
  /** Undefined limits: none. Resolves with undefined when none can be made. */
  create(name: string, limits: GroupLimits | undefined): Promise<CommandGroup | undefined>;
  close(): void;
}

interface Tree {
  version: 1 | 2;
  parent: string;
  controllers: string[];
}

const prefix = "coral-exec";
const periodUs = 100_000;

export interface OpenGroupsOptions {
  log: Logger;
  /** For tests; default: the trees of this machine. */
  mounts?: ReturnType<typeof readCgroupMounts>;
}

/** Makes the directory of this agent, and ends and removes what agents left behind that do not run any more. */
export function openCommandGroups({ log, mounts = readCgroupMounts() }: OpenGroupsOptions): CommandGroups {
  // The last part distinguishes several groups of one process.
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

/** A group of version 2 hands its controllers down only when that is written, and only while no process is in it itself. */
function enableControllers(directory: string, parent: string, controllers: readonly string[]): void {
  for (const controller of controllers) {
    attempt(() => writeFileSync(`${directory}/cgroup.subtree_control`, `+${controller}`));
    attempt(() => writeFileSync(`${parent}/cgroup.subtree_control`, `+${controller}`));
  }
}

function enabledIn(parent: string): string[] {
  return (readText(`${parent}/cgroup.subtree_control`) ?? "").split(/\s+/).filter((word) => word !== "");
}

/** Groups are made and removed beside the agent's own work: the kernel lets that wait for every process that joins one meanwhile, which takes milliseconds. */
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
      // Nothing can come into it by itself.
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

function limitFiles({ version, controllers }: Tree, { memoryBytes, cpus, processes }: GroupLimits): [string, string][] {
  const quotaUs = String(Math.max(1_000, Math.round(cpus * periodUs)));
  const files: Record<string, [string, string][]> =
    version === 2
      ? {
          memory: [
            ["memory.max", String(memoryBytes)],
            ["memory.swap.max", "0"],
            // One that is over its bounds ends as a whole.
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

/** Groups of agents whose process is gone. Pids mean nothing in another pid namespace, so those groups are kept. */
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
    if (ended > 0) log.warn("Ended processes of commands that an agent before this one left behind", { processes: ended });
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
    // Gone or not readable: then there is nothing to do there.
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
    // A group that is gone, or a file that this kernel does not have.
    return undefined;
  }
}

/** As `attempt`, for what takes a while. */
async function isDone(work: Promise<unknown>): Promise<boolean> {
  try {
    await work;
    return true;
  } catch (error) {
    if (error instanceof Error && "syscall" in error) return false;
    throw error;
  }
}

/** False when the system refused; what it means is the caller's to know. */
function attempt(act: () => unknown): boolean {
  try {
    act();
    return true;
  } catch (error) {
    if (error instanceof Error && "syscall" in error) return false;
    throw error;
  }
}
