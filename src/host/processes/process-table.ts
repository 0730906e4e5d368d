/** Tracks the host's processes from scan to scan: started, exited, replaced by exec(2), and the network namespace of each. */

import { printable } from "../../base/escape-text.ts";
import { remembered } from "../../base/remembered.ts";
import { createReadTally, type HostRoot, type ReadTally } from "../files/host-root.ts";
import type { Pacer } from "../files/pacer.ts";

export interface ProcessEntry {
  readonly pid: number;
  /** Together with pid an identity: start time since boot, clock ticks. */
  readonly startTicks: number;
  /** Changes with exec(2): the random address of the stack. */
  readonly execMark: number;
  readonly parentPid: number;
  /** The kernel's name of the process, at most 15 characters. */
  readonly name: string;
  /** Inode of the network namespace; null if access is denied. */
  networkNamespace: number | null;
  /** When it was first seen, in scans of this table. */
  readonly sinceScan: number;
}

export interface ProcessChanges {
  /** Started, or replaced by exec(2), since the previous scan; all processes in the first scan. */
  added: ProcessEntry[];
  removed: ProcessEntry[];
  /** Processes whose namespace may not be read. */
  denied: number;
  /** Processes above the limit. */
  cut: number;
}

export interface ProcessTable {
  /** Reads every process once. Rejects only when the pacer's signal is aborted. */
  refresh(pacer: Pacer): Promise<ProcessChanges>;
  get(pid: number): ProcessEntry | undefined;
  values(): IterableIterator<ProcessEntry>;
  childrenOf(pid: number): readonly ProcessEntry[];
  /** A few members of each namespace, longest-running first. */
  namespaces(): ReadonlyMap<number, readonly ProcessEntry[]>;
  readonly scan: number;
}

const maxProcesses = 32_768;
const membersPerNamespace = 4;
/** Namespaces are read again this often, for the few programs that move to another one while they run. */
const namespaceScans = 10;
const kernelThreadFlag = 0x0020_0000;

/** The fields of `/proc/<pid>/stat` that are wanted here, by their number after the name. */
const fieldNumbers = { parent: 1, flags: 6, start: 19, stack: 25 } as const;

interface StatFields {
  parentPid: number;
  isKernelThread: boolean;
  isZombie: boolean;
  startTicks: number;
  execMark: number;
  nameStart: number;
  nameEnd: number;
}

/** Parses bytes without a string per field, because it runs for every process in every scan. Null for malformed input. */
export function parseStatFields(bytes: Uint8Array): StatFields | null {
  const open = bytes.indexOf(0x28);
  const close = bytes.lastIndexOf(0x29);
  if (open < 2 || close < open || close + 4 > bytes.length) return null;
  const values = [Number.NaN, Number.NaN, Number.NaN, Number.NaN];
  const wanted = [fieldNumbers.parent, fieldNumbers.flags, fieldNumbers.start, fieldNumbers.stack];
  let field = 1;
  let value = 0;
  let next = 0;
  for (let index = close + 4; index < bytes.length && next < wanted.length; index++) {
    const byte = bytes[index] ?? 0;
    if (byte === 0x20 || byte === 0x0a) {
      if (field === wanted[next]) values[next++] = value;
      field++;
      value = 0;
    } else if (byte >= 0x30 && byte <= 0x39) value = value * 10 + byte - 0x30;
    // A sign, in fields that are not needed; anything else is not a number.
    else if (byte !== 0x2d) value = Number.NaN;
  }
  const [parentPid = Number.NaN, flags = Number.NaN, startTicks = Number.NaN, execMark = 0] = values;
  if (!Number.isSafeInteger(parentPid) || !Number.isFinite(startTicks) || startTicks > Number.MAX_SAFE_INTEGER) return null;
  return {
    parentPid,
    isKernelThread: Math.floor(flags / kernelThreadFlag) % 2 === 1,
    isZombie: bytes[close + 2] === 0x5a,
    startTicks,
    execMark: Number.isFinite(execMark) ? execMark : 0,
    nameStart: open + 1,
    nameEnd: close,
  };
}

/** The entry as it is now: a process that was forked when the table was read may have executed its own program since. */
export function currentEntry(root: HostRoot, entry: ProcessEntry): ProcessEntry {
  const bytes = root.readBytes(`/proc/${entry.pid}/stat`);
  const fields = bytes && parseStatFields(bytes);
  if (!bytes || !fields || fields.startTicks !== entry.startTicks || fields.execMark === entry.execMark) return entry;
  return { ...entry, execMark: fields.execMark, name: nameIn(bytes, fields) };
}

function nameIn(bytes: Buffer, { nameStart, nameEnd }: StatFields): string {
  return printable(bytes.toString("utf8", nameStart, nameEnd), 64);
}

export function namespaceInode(link: string | null): number | null {
  const inode = link?.startsWith("net:[") ? Number(link.slice(5, -1)) : Number.NaN;
  return Number.isSafeInteger(inode) ? inode : null;
}

export function createProcessTable(root: HostRoot): ProcessTable {
  return new ProcTable(root);
}

class ProcTable implements ProcessTable {
  readonly #root: HostRoot;
  #entries = new Map<number, ProcessEntry>();
  #children = new Map<number, ProcessEntry[]>();
  #scan = 0;

  constructor(root: HostRoot) {
    this.#root = root;
  }

  get scan(): number {
    return this.#scan;
  }

  get(pid: number): ProcessEntry | undefined {
    return this.#entries.get(pid);
  }

  values(): IterableIterator<ProcessEntry> {
    return this.#entries.values();
  }

  childrenOf(pid: number): readonly ProcessEntry[] {
    return this.#children.get(pid) ?? [];
  }

  namespaces(): Map<number, ProcessEntry[]> {
    const namespaces = new Map<number, ProcessEntry[]>();
    for (const entry of this.#entries.values()) {
      if (entry.networkNamespace === null) continue;
      const members = remembered(namespaces, entry.networkNamespace, () => []);
      // Several, in case the first has exited when its table is read.
      if (members.length < membersPerNamespace) members.push(entry);
    }
    return namespaces;
  }

  async refresh(pacer: Pacer): Promise<ProcessChanges> {
    this.#scan++;
    const tally = createReadTally();
    const changes: ProcessChanges = { added: [], removed: [], denied: 0, cut: 0 };
    const entries = new Map<number, ProcessEntry>();
    const children = new Map<number, ProcessEntry[]>();
    for (const name of this.#root.list("/proc") ?? []) {
      const pid = Number(name);
      if (!Number.isSafeInteger(pid) || pid <= 0 || name.startsWith("0")) continue;
      if (entries.size >= maxProcesses) {
        changes.cut++;
        continue;
      }
      if (pacer.due()) await pacer.rest();
      const entry = this.#inspect(pid, changes, tally);
      if (!entry) continue;
      entries.set(pid, entry);
      remembered(children, entry.parentPid, () => []).push(entry);
    }
    for (const [pid, entry] of this.#entries) if (!entries.has(pid)) changes.removed.push(entry);
    this.#entries = entries;
    this.#children = children;
    changes.denied += tally.denied;
    return changes;
  }

  /** Null for processes that have exited or have no descriptors. */
  #inspect(pid: number, changes: ProcessChanges, tally: ReadTally): ProcessEntry | null {
    const bytes = this.#root.readBytes(`/proc/${pid}/stat`);
    const fields = bytes && parseStatFields(bytes);
    if (!bytes || !fields || fields.isZombie || fields.isKernelThread) return null;
    const { startTicks, execMark, parentPid } = fields;
    const known = this.#entries.get(pid);
    const isSameProgram = known?.startTicks === startTicks && known.execMark === execMark;
    if (isSameProgram && known.parentPid === parentPid) {
      this.#refreshNamespace(known, changes, tally);
      return known;
    }
    const entry: ProcessEntry = {
      pid,
      startTicks,
      execMark,
      parentPid,
      name: nameIn(bytes, fields),
      networkNamespace: isSameProgram ? known.networkNamespace : this.#readNamespace(pid, tally),
      sinceScan: isSameProgram ? known.sinceScan : this.#scan,
    };
    if (!isSameProgram) {
      changes.added.push(entry);
      if (known) changes.removed.push(known);
    }
    return entry;
  }

  #refreshNamespace(known: ProcessEntry, changes: ProcessChanges, tally: ReadTally): void {
    const isDue = this.#scan - known.sinceScan < 2 || (this.#scan + known.pid) % namespaceScans === 0;
    if (isDue) known.networkNamespace = this.#readNamespace(known.pid, tally) ?? known.networkNamespace;
    else if (known.networkNamespace === null) changes.denied++;
  }

  #readNamespace(pid: number, tally: ReadTally): number | null {
    return namespaceInode(this.#root.readLink(`/proc/${pid}/ns/net`, tally));
  }
}
