/**
 * Maps sockets to processes. The kernel exposes this only descriptor by descriptor, so the search reads as few as possible: sockets with a known
 * owner are not searched again, likely owners come first, and the search ends when all are found.
 */

import { createReadTally, type HostRoot } from "../files/host-root.ts";
import type { Pacer } from "../files/pacer.ts";
import { DescriptorDirectory } from "../processes/descriptor-directory.ts";
import { DescriptorWalk } from "../processes/descriptor-walk.ts";
import type { ProcessEntry } from "../processes/process-table.ts";
import { type Holder, SocketHolders } from "./socket-holders.ts";

export interface SocketOwnerLimits {
  /** Descriptors read per scan; default 100,000. */
  perScan?: number;
}

export interface SocketSearch {
  /** Inodes to find; found ones are removed. */
  wanted: Set<number>;
  /** Likely owners first. */
  processes: Iterable<ProcessEntry>;
  /** True if the list contains all processes: unread ones come first then. */
  isSweep: boolean;
  /** True for sockets that still exist: their known descriptors are not read again. */
  isAlive: (inode: number) => boolean;
  /** Called if some sockets were not found where sockets usually are: whether to read all other descriptors for this many. */
  isWorthTheRest: (unfound: number) => boolean;
}

export interface SocketOwners {
  /** Reads processes until all wanted sockets are found. */
  find(search: SocketSearch, pacer: Pacer): Promise<void>;
  /**
   * Reads descriptors of these processes that were skipped so far, at most about `limit`: a few in every scan eventually cover all.
   * `again`: also processes that were read completely before.
   */
  explore(processes: Iterable<ProcessEntry>, isAlive: (inode: number) => boolean, limit: number, again?: boolean): void;
  /** Checks one descriptor of one process for this socket, which a child may have inherited. */
  probe(process: ProcessEntry, descriptor: number, inode: number): boolean;
  /** Pids that hold the socket, ascending. */
  of(inode: number): readonly number[];
  /** Descriptor and inode of each known socket of the process. */
  socketsOf(pid: number): Iterable<readonly [descriptor: number, inode: number]>;
  /** Whether the process's number of descriptors changed since the last visit; true where the kernel does not report it cheaply. */
  hasChanged(process: ProcessEntry): boolean;
  /** Whether all descriptors of the process were read at least once; a search stops as soon as it has found its sockets. */
  isReadWhole(process: ProcessEntry): boolean;
  forgetProcess(pid: number): void;
  forgetSocket(inode: number): void;
  /** Starts a new budget. */
  beginScan(): void;
  /** Processes whose descriptors may not be listed. */
  readonly denied: number;
  /** Descriptors skipped in this scan because of the limit. */
  readonly cut: number;
  /** Descriptors read in this scan. */
  readonly descriptorsRead: number;
}

/** Sockets are adjacent in descriptor tables: after this many other descriptors in a row, the rest of the process is deferred. */
const maxMisses = 5;
/** The same before the first socket: runtimes open a dozen pipes and event descriptors at start. */
const maxInitialMisses = 24;

export function createSocketOwners(root: HostRoot, limits: SocketOwnerLimits = {}): SocketOwners {
  return new ProcSocketOwners(root, limits.perScan ?? 100_000);
}

/** What to read from a process, and when to stop. */
type Aim = Pick<SocketSearch, "wanted" | "isAlive">;

/** A process that is being read. */
interface Visit {
  holder: Holder;
  walk: DescriptorWalk;
}

class ProcSocketOwners implements SocketOwners {
  readonly #directory: DescriptorDirectory;
  readonly #holders = new SocketHolders();
  readonly #perScan: number;
  #scan = 0;
  /** Remaining budget of descriptors in this scan. */
  #budget: number;
  #cut = 0;

  constructor(root: HostRoot, perScan: number) {
    this.#directory = new DescriptorDirectory(root);
    this.#perScan = perScan;
    this.#budget = perScan;
  }

  beginScan(): void {
    this.#scan++;
    this.#budget = this.#perScan;
    this.#cut = 0;
  }

  async find(search: SocketSearch, pacer: Pacer): Promise<void> {
    const unfinished: Visit[] = [];
    for (const process of search.processes) {
      if (search.wanted.size === 0) return;
      if (pacer.due()) await pacer.rest();
      const visit = this.#begin(process);
      if (visit && !this.#read(visit, search, false)) unfinished.push(visit);
    }
    if (search.isSweep) unfinished.sort((one, other) => one.holder.sockets.size - other.holder.sockets.size);
    for (const visit of unfinished) {
      if (search.wanted.size === 0 || !search.isWorthTheRest(search.wanted.size)) return;
      if (pacer.due()) await pacer.rest();
      if (this.#budget <= 0) this.#cut += visit.walk.left;
      else this.#read(visit, search, true);
    }
  }

  explore(processes: Iterable<ProcessEntry>, isAlive: (inode: number) => boolean, limit: number, again = false): void {
    // Matches nothing, so that all descriptors are read.
    const aim: Aim = { wanted: new Set([-1]), isAlive };
    const end = this.#budget - limit;
    for (const process of processes) {
      if (this.#budget <= end) return;
      if (!again && this.#holders.of(process).wholeScan > 0) continue;
      const visit = this.#begin(process);
      if (visit) this.#read(visit, aim, true);
    }
  }

  probe(process: ProcessEntry, descriptor: number, inode: number): boolean {
    const holder = this.#holders.of(process);
    const isKnown = holder.sockets.get(descriptor) === inode;
    if (isKnown || holder.isDenied || holder.wholeScan === this.#scan) return isKnown;
    this.#budget--;
    if (this.#directory.socketAt(process.pid, descriptor) !== inode) return false;
    this.#holders.add(holder, descriptor, inode);
    return true;
  }

  of(inode: number): readonly number[] {
    return this.#holders.ownersOf(inode);
  }

  socketsOf(pid: number): Iterable<readonly [descriptor: number, inode: number]> {
    return this.#holders.socketsOf(pid);
  }

  hasChanged(process: ProcessEntry): boolean {
    const before = this.#holders.known(process)?.count ?? -1;
    const now = before < 0 ? -1 : this.#directory.count(process.pid);
    return now < 0 || now !== before;
  }

  isReadWhole(process: ProcessEntry): boolean {
    return (this.#holders.known(process)?.wholeScan ?? 0) > 0;
  }

  forgetProcess(pid: number): void {
    this.#holders.forgetProcess(pid);
  }

  forgetSocket(inode: number): void {
    this.#holders.forgetSocket(inode);
  }

  get denied(): number {
    return this.#holders.denied;
  }

  get cut(): number {
    return this.#cut;
  }

  get descriptorsRead(): number {
    return this.#perScan - this.#budget;
  }

  /** Null if the process has exited or is not readable. */
  #begin(process: ProcessEntry): Visit | null {
    const holder = this.#holders.of(process);
    if (holder.isDenied) return null;
    const count = this.#directory.count(process.pid);
    if (count > 0) {
      holder.count = count;
      return { holder, walk: DescriptorWalk.counted(count) };
    }
    const numbers = this.#list(holder);
    if (!numbers) return null;
    holder.count = numbers.length;
    return { holder, walk: DescriptorWalk.listed(numbers) };
  }

  /** Continues where the visit stopped; stops early after too many that are not sockets, unless `toTheEnd`. True when none is left. */
  #read({ holder, walk }: Visit, aim: Aim, toTheEnd: boolean): boolean {
    const tally = createReadTally();
    let misses = 0;
    let limit = holder.sockets.size > 0 ? maxMisses : maxInitialMisses;
    for (; walk.left > 0; walk.advance()) {
      if (this.#budget <= 0 || aim.wanted.size === 0 || (misses >= limit && !toTheEnd)) return false;
      const descriptor = walk.current;
      const before = holder.sockets.get(descriptor);
      if (before !== undefined && aim.isAlive(before)) continue;
      this.#budget--;
      const inode = this.#directory.socketAt(holder.pid, descriptor, tally);
      // Listable but not readable: so are all others of this process, and each refusal costs more than a read.
      if (inode === null && tally.denied > 0) {
        holder.isDenied = true;
        return true;
      }
      if (inode === null && walk.skipGap(() => this.#list(holder) ?? [])) continue;
      this.#note(holder, descriptor, inode ?? 0, aim);
      if (inode) {
        misses = 0;
        limit = maxMisses;
      } else misses++;
    }
    holder.wholeScan = this.#scan;
    return true;
  }

  /** Only sockets in the kernel's TCP and UDP tables are kept: the end of a unix socket would go unnoticed, so they would accumulate. */
  #note(holder: Holder, descriptor: number, inode: number, aim: Aim): void {
    if (inode > 0 && (aim.wanted.delete(inode) || aim.isAlive(inode))) this.#holders.add(holder, descriptor, inode);
    else holder.sockets.delete(descriptor);
  }

  #list(holder: Holder): readonly number[] | null {
    const { numbers, isDenied } = this.#directory.list(holder.pid);
    if (isDenied) holder.isDenied = true;
    return numbers;
  }
}
