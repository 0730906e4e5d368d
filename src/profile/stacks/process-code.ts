/** Which file holds an address of a process. Files are shared by processes and kept open while samples are in them. */

import type { CodeMapping, CodeReader, MappedFile } from "../../host/index.ts";
import { CodeFile } from "./code-file.ts";

export interface CodePlace {
  mapping: CodeMapping;
  /** Null for memory without a file, and for files that may not be opened. */
  file: CodeFile | null;
  /** In the file's own addresses; 0 without a file. */
  address: number;
}

/** Files that are open at a time; a host runs a few hundred. */
const maxFiles = 512;
/** Symbols and frame tables of all files, between windows. Files that were unused for longest give theirs back, and read them again when hit. */
const maxTableBytes = 16 * 1024 * 1024;
/** Processes whose mappings are kept, and for how long without a sample. */
const maxProcesses = 512;
const unusedMs = 60_000;
/** Addresses of a process that are kept with their places; all go when there are more. */
const maxPlaces = 4_096;
/** Not read again more often, however many addresses are unknown. Doubles each time that brings nothing: damaged stacks have addresses of nothing. */
const rereadMs = 1_000;
const maxRereadMs = 30_000;

export class FileCache implements Disposable {
  readonly #reader: CodeReader;
  readonly #files = new Map<string, CodeFile | null>();
  #vdso: CodeFile | null | undefined;

  constructor(reader: CodeReader) {
    this.#reader = reader;
  }

  open(pid: number, mapped: MappedFile, nowMs: number): CodeFile | null {
    let file = this.#files.get(mapped.key);
    if (file === undefined) {
      const opened = this.#reader.open(pid, mapped);
      file = opened === null ? null : CodeFile.of(moduleOf(mapped.path), opened);
      if (this.#files.size >= maxFiles) this.#evict();
      this.#files.set(mapped.key, file);
    }
    if (file !== null) file.usedMs = nowMs;
    return file;
  }

  vdso(): CodeFile | null {
    if (this.#vdso === undefined) {
      const bytes = this.#reader.vdso();
      this.#vdso = bytes === null ? null : CodeFile.ofBytes("[vdso]", bytes);
    }
    return this.#vdso;
  }

  trim(): void {
    let tableBytes = 0;
    const files = [...this.#files.values()].filter((file) => file !== null).sort((a, b) => b.usedMs - a.usedMs);
    for (const file of files) {
      tableBytes += file.tableBytes;
      if (tableBytes > maxTableBytes) file.release();
    }
  }

  /** The quarter that was unused for longest. */
  #evict(): void {
    const byUse = [...this.#files].sort(([, a], [, b]) => (a?.usedMs ?? 0) - (b?.usedMs ?? 0));
    for (const [key, file] of byUse.slice(0, maxFiles / 4)) {
      this.#files.delete(key);
      file?.[Symbol.dispose]();
    }
  }

  [Symbol.dispose](): void {
    for (const file of this.#files.values()) file?.[Symbol.dispose]();
    this.#files.clear();
  }
}

/** `/usr/lib/libc.so.6 (deleted)` → `libc.so.6` */
function moduleOf(path: string): string {
  const name = path.replace(/ \(deleted\)$/, "");
  return name.slice(name.lastIndexOf("/") + 1).slice(0, 100);
}

export class ProcessCode {
  readonly #pid: number;
  readonly #reader: CodeReader;
  readonly #files: FileCache;
  #mappings: readonly CodeMapping[] = [];
  #readMs = Number.NEGATIVE_INFINITY;
  #rereadMs = rereadMs;
  /** What the process runs, once its code was read. */
  #main: CodeFile | null = null;
  /** Few addresses are in most samples. */
  readonly #places = new Map<number, CodePlace>();
  usedMs: number;

  constructor(pid: number, reader: CodeReader, files: FileCache, nowMs: number) {
    this.#pid = pid;
    this.#reader = reader;
    this.#files = files;
    this.usedMs = nowMs;
    this.#read(nowMs);
  }

  get isGo(): boolean {
    return this.#main?.isGo === true;
  }

  get build(): string | null {
    return this.#main?.build ?? null;
  }

  find(address: number, nowMs: number): CodePlace | null {
    const known = this.#places.get(address);
    const place = known ?? this.#find(address, nowMs);
    if (place === null) return null;
    if (place.file !== null) place.file.usedMs = nowMs;
    if (known !== undefined) return place;
    if (this.#places.size >= maxPlaces) this.#places.clear();
    this.#places.set(address, place);
    return place;
  }

  /** Frees what only samples of one window have in common. */
  forgetPlaces(): void {
    this.#places.clear();
  }

  #find(address: number, nowMs: number): CodePlace | null {
    const mapping = this.#mappingOf(address) ?? this.#reread(address, nowMs);
    if (mapping === undefined) return null;
    const file =
      mapping.file !== null ? this.#files.open(this.#pid, mapping.file, nowMs) : mapping.name === "[vdso]" ? this.#files.vdso() : null;
    const place = file?.addressOf(address - mapping.start + mapping.fileOffset) ?? null;
    return place === null ? { mapping, file: null, address: 0 } : { mapping, file, address: place };
  }

  #reread(address: number, nowMs: number): CodeMapping | undefined {
    if (nowMs - this.#readMs < this.#rereadMs) return undefined;
    const mapping = this.#read(nowMs) ? this.#mappingOf(address) : undefined;
    this.#rereadMs = mapping === undefined ? Math.min(this.#rereadMs * 2, maxRereadMs) : rereadMs;
    return mapping;
  }

  #mappingOf(address: number): CodeMapping | undefined {
    let [low, high] = [0, this.#mappings.length];
    while (low < high) {
      const middle = (low + high) >>> 1;
      if ((this.#mappings[middle]?.end ?? 0) <= address) low = middle + 1;
      else high = middle;
    }
    const mapping = this.#mappings[low];
    return mapping !== undefined && address >= mapping.start ? mapping : undefined;
  }

  /** The mappings of a process that has ended stay. */
  #read(nowMs: number): boolean {
    this.#readMs = nowMs;
    const mappings = this.#reader.mappings(this.#pid);
    if (mappings === null || mappings.length === 0) return false;
    this.#mappings = mappings;
    this.#places.clear();
    // The kernel maps the executable below its libraries.
    const main = mappings.find(({ file }) => file !== null)?.file ?? null;
    this.#main = main === null ? null : this.#files.open(this.#pid, main, nowMs);
    return true;
  }
}

/** The code of processes, by pid and start. */
export class ProcessCodes {
  readonly #reader: CodeReader;
  readonly #files: FileCache;
  /** Least recently used first. */
  readonly #processes = new Map<number, { startedNs: number; code: ProcessCode }>();

  constructor(reader: CodeReader, files: FileCache) {
    this.#reader = reader;
    this.#files = files;
  }

  of(pid: number, startedNs: number, nowMs: number): ProcessCode {
    const known = this.#processes.get(pid);
    this.#processes.delete(pid);
    const code = known?.startedNs === startedNs ? known.code : new ProcessCode(pid, this.#reader, this.#files, nowMs);
    code.usedMs = nowMs;
    this.#processes.set(pid, { startedNs, code });
    for (const oldest of this.#processes.keys()) {
      if (this.#processes.size <= maxProcesses) break;
      this.#processes.delete(oldest);
    }
    return code;
  }

  /** At the end of a window. */
  trim(nowMs: number): void {
    for (const [pid, { code }] of this.#processes) {
      if (nowMs - code.usedMs > unusedMs) this.#processes.delete(pid);
      else code.forgetPlaces();
    }
    this.#files.trim();
  }
}
