/**
 * Which processes hold which sockets. The kernel tells it only descriptor by descriptor, so the work is in not asking: sockets whose owner
 * is known are not looked for again, likely owners come first, and looking ends when all are found.
 */

import { createReadTally, type HostRoot } from "./host-root.ts";
import type { Pacer } from "./pacer.ts";
import type { ProcessEntry } from "./process-table.ts";

export interface SocketOwnerLimits {
  /** Descriptors looked at per scan; default 100,000. */
  perScan?: number;
}

export interface SocketSearch {
  /** Inodes that are looked for; found ones are taken out. */
  wanted: Set<number>;
  /** Likely owners first. */
  processes: Iterable<ProcessEntry>;
  /** True when they are all processes: then those of which nothing is known have most to tell. */
  isSweep: boolean;
  /** True for sockets that are still there: a descriptor that held one before is not read again. */
  isAlive: (inode: number) => boolean;
  /** Asked when some were not found where sockets usually stand: whether all other descriptors are worth reading for so many. */
  isWorthTheRest: (unfound: number) => boolean;
}

export interface SocketOwners {
  /** Looks into the processes until all wanted sockets are found. */
  find(search: SocketSearch, pacer: Pacer): Promise<void>;
  /**
   * Reads what was left out of these processes so far, at most about `limit` descriptors: a little in every scan finds everything in time.
   * `again`: also those that were read to the end before.
   */
  explore(processes: Iterable<ProcessEntry>, isAlive: (inode: number) => boolean, limit: number, again?: boolean): void;
  /** Asks one process about one descriptor: whether it holds this socket too, as a child does that inherited it. */
  probe(process: ProcessEntry, descriptor: number, inode: number): boolean;
  /** Pids that hold the socket, ascending. */
  of(inode: number): readonly number[];
  /** Descriptor and inode of each known socket of the process. */
  socketsOf(pid: number): Iterable<readonly [descriptor: number, inode: number]>;
  /** Whether the process's number of descriptors is another than at the last look; true where the kernel does not tell cheaply. */
  hasChanged(process: ProcessEntry): boolean;
  forgetProcess(pid: number): void;
  forgetSocket(inode: number): void;
  /** Starts a new budget. */
  beginScan(): void;
  /** Processes whose descriptors may not be listed. */
  readonly denied: number;
  /** Descriptors that were not looked at in this scan because of the limit. */
  readonly cut: number;
  /** Descriptors read in this scan. */
  readonly looked: number;
}

interface Holder {
  startTicks: number;
  /** Sockets by descriptor. */
  sockets: Map<number, number>;
  isDenied: boolean;
  /** The scan that read all of its descriptors; 0 for none so far. */
  wholeScan: number;
  /** Descriptors at the last look; -1 when unknown. */
  count: number;
}

const maxOwnersPerSocket = 64;
/** Sockets stand together in the table of descriptors: after this many other things in a row, the rest of the process waits for a second turn. */
const patience = 5;
/** Before the first: runtimes open a dozen pipes and event descriptors when they start. */
const initialPatience = 24;
const socketLink = "socket:[";

/** Input, output and errors come last: they are sockets only for programs that inetd and its kin start. */
const standardStreams = 3;

/** Missing numbers that are tried before all are listed: a miss costs about as much as listing twenty. */
const maxGaps = 2;

function denseAt(index: number, count: number): number {
  const number = index + standardStreams;
  return number < count ? number : count > standardStreams ? number - count : index;
}

function inodeOf(link: string): number {
  return link.startsWith(socketLink) ? Number(link.slice(socketLink.length, -1)) : 0;
}

export function createSocketOwners(root: HostRoot, limits: SocketOwnerLimits = {}): SocketOwners {
  const { perScan = 100_000 } = limits;
  /** Bounded by the living processes and their sockets: both are forgotten when they end. */
  const holders = new Map<number, Holder>();
  const byInode = new Map<number, number[]>();
  let scan = 0;
  let left = perScan;
  let cut = 0;
  // Since Linux 6.2 the size of the fd directory is the number of descriptors. The listing itself holds one more open.
  const ownSize = root.stat("/proc/self/fd")?.sizeBytes ?? 0;
  const kernelCounts = ownSize > 0 && Math.abs(ownSize - (root.list("/proc/self/fd")?.length ?? 0)) <= 1;

  const holderOf = (process: ProcessEntry): Holder => {
    const known = holders.get(process.pid);
    if (known?.startTicks === process.startTicks) return known;
    if (known) forgetProcess(process.pid);
    const holder: Holder = { startTicks: process.startTicks, sockets: new Map(), isDenied: false, wholeScan: 0, count: -1 };
    holders.set(process.pid, holder);
    return holder;
  };

  const addOwner = (inode: number, pid: number): void => {
    const pids = byInode.get(inode);
    if (!pids) byInode.set(inode, [pid]);
    else if (!pids.includes(pid) && pids.length < maxOwnersPerSocket) {
      pids.push(pid);
      pids.sort((one, other) => one - other);
    }
  };

  const countOf = (pid: number): number => (kernelCounts ? (root.stat(`/proc/${pid}/fd`)?.sizeBytes ?? -1) : -1);

  function forgetProcess(pid: number): void {
    for (const inode of holders.get(pid)?.sockets.values() ?? []) {
      const pids = byInode.get(inode)?.filter((one) => one !== pid) ?? [];
      if (pids.length === 0) byInode.delete(inode);
      else byInode.set(inode, pids);
    }
    holders.delete(pid);
  }

  /** What is left of a process for the second turn. */
  interface Rest {
    process: ProcessEntry;
    holder: Holder;
    /** Numbers in the order they are read; null while they are taken to be all from 0 on, which saves listing them. */
    descriptors: readonly number[] | null;
    count: number;
    /** Numbers that were missing. */
    gaps: number;
    next: number;
  }

  /** Remembers what a descriptor is; true when it is a socket of any kind. */
  const note = ({ process, holder }: Rest, descriptor: number, link: string | null, search: SocketSearch): boolean => {
    const inode = link === null ? 0 : inodeOf(link);
    // Only those of the tables are remembered: unix sockets come and go unseen, and would pile up.
    if (inode > 0 && (search.wanted.delete(inode) || search.isAlive(inode))) {
      holder.sockets.set(descriptor, inode);
      addOwner(inode, process.pid);
    } else holder.sockets.delete(descriptor);
    return inode > 0;
  };

  /** Reads descriptors from `next` on; stops early after too many that are no sockets, unless `toTheEnd`. True when none is left. */
  const read = (rest: Rest, search: SocketSearch, toTheEnd: boolean): boolean => {
    const { holder } = rest;
    const directory = `/proc/${rest.process.pid}/fd/`;
    const tally = createReadTally();
    let misses = 0;
    let limit = holder.sockets.size > 0 ? patience : initialPatience;
    for (; rest.next < rest.count; rest.next++) {
      if (left <= 0 || search.wanted.size === 0 || (misses >= limit && !toTheEnd)) return false;
      const descriptor = rest.descriptors ? (rest.descriptors[rest.next] ?? 0) : denseAt(rest.next, rest.count);
      const before = holder.sockets.get(descriptor);
      if (before !== undefined && search.isAlive(before)) continue;
      left--;
      const link = root.readLink(directory + descriptor, tally);
      // May be listed but not looked at: so are all others of this process, and each refusal costs more than a read.
      if (link === null && tally.denied > 0) {
        holder.isDenied = true;
        return true;
      }
      if (link === null && !rest.descriptors && rest.gaps < maxGaps) {
        // One number is missing, so there is one more behind.
        rest.gaps++;
        rest.count++;
        continue;
      }
      if (link === null && !rest.descriptors) {
        // Too many are missing, so they have to be listed; those before were read.
        rest.descriptors = (list(rest.process, holder) ?? []).filter((number) => number > descriptor || number < standardStreams);
        rest.count = rest.descriptors.length;
        rest.next = -1;
        continue;
      }
      if (note(rest, descriptor, link, search)) {
        misses = 0;
        limit = patience;
      } else misses++;
    }
    holder.wholeScan = scan;
    return true;
  };

  const list = (process: ProcessEntry, holder: Holder): number[] | null => {
    const tally = createReadTally();
    const numbers = root.list(`/proc/${process.pid}/fd`, tally)?.map(Number);
    if (!numbers && tally.denied > 0) holder.isDenied = true;
    return numbers
      ? [...numbers.filter((number) => number >= standardStreams), ...numbers.filter((number) => number < standardStreams)]
      : null;
  };

  /** Null when the process has ended or may not be looked into. */
  const begin = (process: ProcessEntry): Rest | null => {
    const holder = holderOf(process);
    if (holder.isDenied) return null;
    const count = countOf(process.pid);
    const descriptors = count > 0 ? null : list(process, holder);
    if (count <= 0 && !descriptors) return null;
    holder.count = descriptors?.length ?? count;
    return { process, holder, descriptors, count: holder.count, gaps: 0, next: 0 };
  };

  const find = async (search: SocketSearch, pacer: Pacer): Promise<void> => {
    const second: Rest[] = [];
    for (const process of search.processes) {
      if (search.wanted.size === 0) return;
      if (pacer.due()) await pacer.rest();
      const rest = begin(process);
      if (rest && !read(rest, search, false)) second.push(rest);
    }
    if (search.isSweep) second.sort((one, other) => one.holder.sockets.size - other.holder.sockets.size);
    for (const rest of second) {
      if (search.wanted.size === 0 || !search.isWorthTheRest(search.wanted.size)) return;
      if (pacer.due()) await pacer.rest();
      if (left <= 0) cut += rest.count - rest.next;
      else read(rest, search, true);
    }
  };

  return {
    find,
    explore: (processes, isAlive, limit, again = false) => {
      // Never found, so that reading goes to the end.
      const search = { wanted: new Set([-1]), processes: [], isSweep: false, isAlive, isWorthTheRest: () => true };
      const end = left - limit;
      for (const process of processes) {
        if (left <= end) return;
        if (!again && holderOf(process).wholeScan > 0) continue;
        const rest = begin(process);
        if (rest) read(rest, search, true);
      }
    },
    probe: (process, descriptor, inode) => {
      const holder = holderOf(process);
      const isKnown = holder.sockets.get(descriptor) === inode;
      if (isKnown || holder.isDenied || holder.wholeScan === scan) return isKnown;
      left--;
      const link = root.readLink(`/proc/${process.pid}/fd/${descriptor}`);
      if (link === null || inodeOf(link) !== inode) return false;
      holder.sockets.set(descriptor, inode);
      addOwner(inode, process.pid);
      return true;
    },
    of: (inode) => byInode.get(inode) ?? [],
    socketsOf: (pid) => holders.get(pid)?.sockets ?? [],
    hasChanged: (process) => {
      const holder = holders.get(process.pid);
      if (!holder || holder.startTicks !== process.startTicks || !kernelCounts || holder.count < 0) return true;
      return countOf(process.pid) !== holder.count;
    },
    forgetProcess,
    forgetSocket: (inode) => {
      byInode.delete(inode);
    },
    beginScan: () => {
      scan++;
      left = perScan;
      cut = 0;
    },
    get denied() {
      let count = 0;
      for (const holder of holders.values()) if (holder.isDenied) count++;
      return count;
    },
    get cut() {
      return cut;
    },
    get looked() {
      return perScan - left;
    },
  };
}
