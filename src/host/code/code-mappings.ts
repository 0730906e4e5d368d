/** Executable mappings of a process, with and without a file. */

import { closeSync, openSync, readSync } from "node:fs";
import { createHostRoot, type HostRoot } from "../files/host-root.ts";
import { createCodeMaps, type MappedFile, type OpenedFile } from "../processes/mapped-code.ts";

export interface CodeMapping {
  start: number;
  end: number;
  /** Offset of `start` in the file. */
  fileOffset: number;
  /** Null for memory without a file, such as that of a JIT compiler. */
  file: MappedFile | null;
  /** `[vdso]`; empty for files and unnamed memory. */
  name: string;
}

export interface CodeReader {
  /** Ascending; null if the process has exited or access is denied. */
  mappings(pid: number): CodeMapping[] | null;
  open(pid: number, file: MappedFile): OpenedFile | null;
  /** The code that the kernel maps into every process; null if the kernel has none. */
  vdso(): Buffer | null;
}

/** Mappings per process; a JIT compiler may create thousands. */
const maxMappings = 4_096;
const maxVdsoBytes = 64 * 1024;
const [newline, space, executableMark] = [0x0a, 0x20, 0x78];
/** `7f1c2b400000-7f1c2b622000 r-xp 00028000 fe:01 1234    /usr/lib/libc.so.6` */
const line = /^([0-9a-f]+)-([0-9a-f]+) ..x. ([0-9a-f]+) ([0-9a-f]+:[0-9a-f]+) (\d+) *(.*)$/;

export function createCodeReader(root: HostRoot = createHostRoot()): CodeReader {
  const maps = createCodeMaps(root);
  return {
    mappings: (pid) => readMappings(root, `/proc/${pid}/maps`),
    open: (pid, file) => maps.open(pid, file),
    vdso: () => readVdso(root),
  };
}

function readMappings(root: HostRoot, path: string): CodeMapping[] | null {
  const found: CodeMapping[] = [];
  let rest: Buffer = Buffer.alloc(0);
  const take = (bytes: Buffer, start: number, end: number): void => {
    // "r-xp": one mapping in five is executable. Only those become strings.
    const afterRange = bytes.indexOf(space, start);
    if (afterRange < 0 || afterRange + 4 > end || bytes[afterRange + 3] !== executableMark || found.length >= maxMappings) return;
    const mapping = parseCodeMapping(bytes.toString("utf8", start, end));
    if (mapping !== null) found.push(mapping);
  };
  const isRead = root.readPieces(path, (piece) => {
    const bytes = rest.length === 0 ? piece : Buffer.concat([rest, piece]);
    let start = 0;
    for (let end = bytes.indexOf(newline); end >= 0; end = bytes.indexOf(newline, start)) {
      take(bytes, start, end);
      start = end + 1;
    }
    // The next read overwrites the chunk.
    rest = Buffer.from(bytes.subarray(start));
    return found.length < maxMappings;
  });
  return isRead ? found : null;
}

/** Exported for tests. Null for a mapping that is not executable. */
export function parseCodeMapping(text: string): CodeMapping | null {
  const [, start, end, offset, device, inode, path = ""] = line.exec(text) ?? [];
  if (start === undefined || end === undefined || offset === undefined) return null;
  const isFile = path.startsWith("/") && inode !== "0";
  return {
    start: Number.parseInt(start, 16),
    end: Number.parseInt(end, 16),
    fileOffset: Number.parseInt(offset, 16),
    file: isFile ? { key: `${device}:${inode}`, path, range: `${start}-${end}` } : null,
    name: path.startsWith("[") ? path : "",
  };
}

function readVdso(root: HostRoot): Buffer | null {
  const mapping = readMappings(root, "/proc/self/maps")?.find(({ name }) => name === "[vdso]");
  if (mapping === undefined) return null;
  const bytes = Buffer.alloc(Math.min(mapping.end - mapping.start, maxVdsoBytes));
  let descriptor: number | undefined;
  try {
    descriptor = openSync("/proc/self/mem", "r");
    return bytes.subarray(0, readSync(descriptor, bytes, 0, bytes.length, mapping.start));
  } catch {
    // Without it, frames of the vdso have no name.
    return null;
  } finally {
    if (descriptor !== undefined) closeSync(descriptor);
  }
}
