/** The control groups that get a row: units, containers and pods with processes, in any cgroup version. */

import { printable } from "../../base/escape-text.ts";
import { createReadTally, type HostRoot, type ReadTally } from "../files/host-root.ts";
import type { MountEntry } from "../files/mountinfo.ts";
import type { Pacer } from "../files/pacer.ts";
import { type CgroupCounters, emptyCgroupCounters, readCgroupCounters } from "./cgroup-counters.ts";
import { type CgroupController, type CgroupHierarchy, findCgroupHierarchies } from "./cgroup-hierarchies.ts";

export interface CgroupUsage extends CgroupCounters {
  /** `/system.slice/nginx.service`; the same text as in `/proc/<pid>/cgroup`. */
  path: string;
}

export interface CgroupScan {
  groups: CgroupUsage[];
  /** Groups skipped because there are too many or they are too deep. */
  cut: number;
  tally: ReadTally;
}

export interface CgroupScanOptions {
  /** Default 200; groups that use the least memory are dropped. */
  maxGroups?: number;
  /** Default 8 levels below the mounted group. */
  maxDepth?: number;
  /** Directories read per hierarchy; default 2000. */
  maxVisited?: number;
}

/** One group in one hierarchy. */
interface Membership {
  hierarchy: CgroupHierarchy;
  directory: string;
  isLeaf: boolean;
}

interface Candidate {
  path: string;
  depth: number;
  memberships: Membership[];
}

interface Walk {
  root: HostRoot;
  hierarchies: readonly CgroupHierarchy[];
  options: Required<CgroupScanOptions>;
  pacer: Pacer;
  tally: ReadTally;
  candidates: Map<string, Candidate>;
  cut: number;
}

/** The root of the whole tree is the host itself and gets no row; a container's root is a group like any other. */
function isTrueRoot(walk: Walk, hierarchy: CgroupHierarchy): boolean {
  if (hierarchy.version === 1) return hierarchy.root === "/";
  return walk.root.stat(`${hierarchy.mountPoint}/cgroup.type`) === null;
}

async function walkHierarchy(walk: Walk, hierarchy: CgroupHierarchy): Promise<void> {
  const prefix = hierarchy.root === "/" ? "" : hierarchy.root;
  const queue = [{ relative: "", depth: 0 }];
  // Breadth first: if there are too many, the deepest are dropped.
  for (let index = 0; index < queue.length; index++) {
    if (walk.pacer.due()) await walk.pacer.rest();
    const item = queue[index];
    if (!item) break;
    const directory = hierarchy.mountPoint + item.relative;
    // A cgroup directory has one link per child and two of its own: leaves need no listing, which is the expensive part.
    const isLeaf = walk.root.stat(directory, walk.tally)?.linkCount === 2;
    const children = isLeaf ? [] : (walk.root.listDirectories(directory, walk.tally) ?? []);
    if (item.depth > 0 || !isTrueRoot(walk, hierarchy)) {
      const path = prefix + item.relative || "/";
      let candidate = walk.candidates.get(path);
      if (!candidate) {
        candidate = { path, depth: item.depth, memberships: [] };
        walk.candidates.set(path, candidate);
      }
      candidate.memberships.push({ hierarchy, directory, isLeaf: children.length === 0 });
    }
    for (const name of children) {
      if (item.depth < walk.options.maxDepth && queue.length < walk.options.maxVisited)
        queue.push({ relative: `${item.relative}/${name}`, depth: item.depth + 1 });
      else walk.cut++;
    }
  }
}

/** v2 reports it for the whole subtree; in v1 only the group's own processes are cheap to read. */
function isPopulated(walk: Walk, membership: Membership): boolean {
  const { hierarchy, directory } = membership;
  if (hierarchy.version === 2) return /^populated 1$/m.test(walk.root.readText(`${directory}/cgroup.events`, walk.tally) ?? "");
  return firstProcess(walk, directory) !== null;
}

function firstProcess(walk: Walk, directory: string): string | null {
  let found: string | null = null;
  walk.root.readPieces(`${directory}/cgroup.procs`, (piece) => {
    found = /\d+/.exec(piece.toString("latin1", 0, 16))?.[0] ?? null;
    return false;
  });
  return found;
}

/**
 * With v1 a process may be in groups of different names, one per controller, while services use one of the names. If a hierarchy has no group of
 * that name, the group with the same process is used, because its limits apply.
 */
function elsewhere(walk: Walk, { path, memberships }: Candidate): Membership[] {
  const missing = walk.hierarchies.filter((hierarchy) => !memberships.some((membership) => membership.hierarchy === hierarchy));
  const own = memberships.find(({ hierarchy }) => hierarchy.version === 1);
  if (missing.length === 0 || !own) return [];
  const pid = firstProcess(walk, own.directory);
  const groups = pid === null ? "" : (walk.root.readText(`/proc/${pid}/cgroup`) ?? "");
  return missing.flatMap((hierarchy): Membership[] => {
    const group = groupOf(groups, hierarchy);
    const prefix = hierarchy.root === "/" ? "" : hierarchy.root;
    if (group === null || group === "/" || group === path || !group.startsWith(prefix)) return [];
    return [{ hierarchy, directory: hierarchy.mountPoint + group.slice(prefix.length), isLeaf: true }];
  });
}

function groupOf(groups: string, { version, controllers }: CgroupHierarchy): string | null {
  for (const line of groups.split("\n", 64)) {
    const [, names = "", path] = /^\d+:([^:]*):(\/.*)$/.exec(line) ?? [];
    const isThis = version === 2 ? names === "" : names.split(",").some((name) => controllers.has(name as CgroupController));
    if (path !== undefined && isThis) return path;
  }
  return null;
}

function readCandidate(walk: Walk, candidate: Candidate, others: readonly Membership[] = []): CgroupCounters {
  const counters = emptyCgroupCounters();
  for (const { hierarchy, directory } of [...candidate.memberships, ...others])
    readCgroupCounters(walk.root, hierarchy, directory, counters, walk.tally);
  return counters;
}

/** A group that is empty because its process was killed: its row says so until the process is started again. */
function hadKills(walk: Walk, candidate: Candidate): boolean {
  return (readCandidate(walk, candidate).oomKills ?? 0) > 0;
}

/**
 * Leaves with processes or with out-of-memory kills, and three kinds of inner groups: the outermost, those with their own processes (v1), and
 * those with a limit.
 */
function isWorthARow(walk: Walk, candidate: Candidate): boolean {
  const populated = candidate.memberships.some((membership) => isPopulated(walk, membership));
  const isLeaf = candidate.memberships.every((membership) => membership.isLeaf);
  const isV1 = candidate.memberships.some((membership) => membership.hierarchy.version === 1);
  if (isLeaf) return populated || hadKills(walk, candidate);
  if (isV1 && populated) return true;
  if (!populated && !isV1) return false;
  if (candidate.depth <= 1) return true;
  const counters = readCandidate(walk, candidate);
  return counters.cpuLimitCores !== null || counters.memoryLimitBytes !== null;
}

function memoryOf(walk: Walk, candidate: Candidate): number {
  for (const { hierarchy, directory } of candidate.memberships) {
    if (!hierarchy.controllers.has("memory")) continue;
    return Number(walk.root.readText(`${directory}/${hierarchy.version === 1 ? "memory.usage_in_bytes" : "memory.current"}`)) || 0;
  }
  return 0;
}

async function chooseLargest(walk: Walk, chosen: Candidate[]): Promise<Candidate[]> {
  const { maxGroups } = walk.options;
  if (chosen.length <= maxGroups) return chosen;
  walk.cut += chosen.length - maxGroups;
  const weighed: { candidate: Candidate; bytes: number }[] = [];
  for (const candidate of chosen) {
    if (walk.pacer.due()) await walk.pacer.rest();
    weighed.push({ candidate, bytes: memoryOf(walk, candidate) });
  }
  return weighed
    .sort((a, b) => b.bytes - a.bytes)
    .slice(0, maxGroups)
    .map((item) => item.candidate);
}

export async function scanCgroups(
  root: HostRoot,
  mounts: readonly MountEntry[],
  pacer: Pacer,
  options: CgroupScanOptions = {},
): Promise<CgroupScan> {
  const { maxGroups = 200, maxDepth = 8, maxVisited = 2000 } = options;
  const hierarchies = findCgroupHierarchies(root, mounts);
  const bounds = { maxGroups, maxDepth, maxVisited };
  const walk: Walk = { root, hierarchies, options: bounds, pacer, tally: createReadTally(), candidates: new Map(), cut: 0 };
  for (const hierarchy of hierarchies) await walkHierarchy(walk, hierarchy);
  const chosen: Candidate[] = [];
  for (const candidate of walk.candidates.values()) {
    if (pacer.due()) await pacer.rest();
    if (isWorthARow(walk, candidate)) chosen.push(candidate);
  }
  const groups: CgroupUsage[] = [];
  for (const candidate of await chooseLargest(walk, chosen)) {
    if (pacer.due()) await pacer.rest();
    groups.push({ path: printable(candidate.path, 512), ...readCandidate(walk, candidate, elsewhere(walk, candidate)) });
  }
  return { groups, cut: walk.cut, tally: walk.tally };
}
