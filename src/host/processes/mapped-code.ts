/** Which files a process has mapped as code: its executable and its libraries, also those of containers and those deleted since. */

import { closeSync, fstatSync, openSync, readSync, statfsSync } from "node:fs";
import type { ReadAt } from "../../code/index.ts";
import { createHostRoot, type HostRoot } from "../files/host-root.ts";

export interface MappedFile {
  /** Device and inode as the kernel prints them. The same file always has the same key; a file in several overlay mounts has several. */
  key: string;
  /** As the process sees it. */
  path: string;
  /** Addresses, as the name of the mapping in `map_files`. */
  range: string;
}

export interface MappedCode {
  executable: string | null;
  files: MappedFile[];
}

export interface OpenedFile extends Disposable {
  /** Valid while the file is open. */
  readonly fd: number;
  /** A path that opens exactly this file, even if its name was reused. Valid while the file is open. */
  readonly path: string;
  readonly readAt: ReadAt;
  readonly sizeBytes: number;
  /** Equal for two views of one file, as in two containers of one image. */
  readonly identity: string;
}

export interface CodeMaps {
  /** Numbers of all processes. */
  listProcesses(): number[];
  /** Null if the process has exited or access is denied; no files for kernel threads. */
  read(pid: number): MappedCode | null;
  /** The executable of the process; null if it has exited. Much cheaper than `read`. */
  executableOf(pid: number): string | null;
  /** Null if the process has exited or access is denied. */
  open(pid: number, file: MappedFile): OpenedFile | null;
  /** Whether the host itself has this file under that name. */
  isOnHost(file: OpenedFile, path: string): boolean;
}

const overlayMagic = 0x794c7630;
/** Files per process; programs with more have generated them at run time. */
const maxMappedFiles = 1024;
const newline = 0x0a;
const space = 0x20;
const slash = 0x2f;
const executableMark = 0x78;

export function createCodeMaps(root: HostRoot = createHostRoot()): CodeMaps {
  return {
    listProcesses: () => (root.list("/proc") ?? []).filter((name) => /^[1-9]\d*$/.test(name)).map(Number),
    read: (pid) => {
      const parser = createMapsParser();
      if (!root.readPieces(`/proc/${pid}/maps`, parser.take)) return null;
      const files = parser.files();
      return { executable: files.length === 0 ? null : root.readLink(`/proc/${pid}/exe`), files };
    },
    executableOf: (pid) => root.readLink(`/proc/${pid}/exe`),
    open: (pid, file) => openMapped(root, pid, file),
    isOnHost: (file, path) => {
      using own = attemptOpen(root.resolve(path));
      return own?.identity === file.identity;
    },
  };
}

/** Exported for tests: takes the text of `/proc/<pid>/maps` in pieces. */
export function createMapsParser(): { take: (piece: Buffer) => boolean; files: () => MappedFile[] } {
  const files = new Map<string, MappedFile>();
  let rest: Buffer = Buffer.alloc(0);
  const takeLine = (text: Buffer, start: number, end: number): void => {
    const afterRange = text.indexOf(space, start);
    // "r-xp": executable mappings only, checked on one byte before a line becomes a string.
    if (afterRange < 0 || afterRange + 4 > end || text[afterRange + 3] !== executableMark) return;
    const pathAt = text.indexOf(slash, afterRange);
    if (pathAt < 0 || pathAt >= end || files.size >= maxMappedFiles) return;
    const [, , device, inode] = text.toString("latin1", afterRange + 1, pathAt).split(" ");
    const key = `${device}:${inode}`;
    if (inode === undefined || inode === "0" || files.has(key)) return;
    files.set(key, { key, path: text.toString("utf8", pathAt, end), range: text.toString("latin1", start, afterRange) });
  };
  return {
    take: (piece) => {
      const text = rest.length === 0 ? piece : Buffer.concat([rest, piece]);
      let start = 0;
      for (let end = text.indexOf(newline); end >= 0; end = text.indexOf(newline, start)) {
        takeLine(text, start, end);
        start = end + 1;
      }
      // The piece is a view that the next read overwrites.
      rest = Buffer.from(text.subarray(start));
      return true;
    },
    files: () => [...files.values()],
  };
}

/** `map_files` opens the mapped file itself, but needs CAP_CHECKPOINT_RESTORE; the name inside the process's root needs less and may be taken by another file. */
function openMapped(root: HostRoot, pid: number, { key, path, range }: MappedFile): OpenedFile | null {
  const byMapping = attemptOpen(root.resolve(`/proc/${pid}/map_files/${range}`));
  if (byMapping !== null) return byMapping;
  const byName = attemptOpen(root.resolve(`/proc/${pid}/root${path}`));
  if (byName === null || byName.inode === key.slice(key.lastIndexOf(":") + 1)) return byName;
  byName[Symbol.dispose]();
  return null;
}

function attemptOpen(path: string): (OpenedFile & { inode: string }) | null {
  let fd: number;
  try {
    fd = openSync(path, "r");
  } catch {
    // Gone, or access denied: the caller tries another way or reports it.
    return null;
  }
  const facts = fstatSync(fd, { bigint: true });
  let isOpen = true;
  const self = `/proc/self/fd/${fd}`;
  const isOverlay = statfsSync(self).type === overlayMagic;
  return {
    fd,
    path: self,
    inode: String(facts.ino),
    sizeBytes: Number(facts.size),
    // Every container has its own overlay mount over the same lower files: the device differs, but the kernel probes the lower file.
    identity: `${isOverlay ? "overlay" : facts.dev}:${facts.ino}:${facts.size}:${facts.mtimeNs}`,
    readAt: (into, offset) => readSync(fd, into, 0, into.length, offset),
    [Symbol.dispose]: () => {
      if (isOpen) closeSync(fd);
      isOpen = false;
    },
  };
}
