/** Finds the file behind an address of a process. Files are shared by processes and stay open while samples hit them. */

import type { ProcessMemory } from "../../bpf/index.ts";
import type { CodeMapping, CodeReader, MappedFile } from "../../host/index.ts";
import type { RuntimeTable } from "../kernel/runtime-table.ts";
import { CodeFile } from "./code-file.ts";
import { findRuntime, type LanguageRuntime } from "./language-runtime.ts";

export interface CodePlace {
  mapping: CodeMapping;
  /** Null for memory without a file, and for files that cannot be opened. */
  file: CodeFile | null;
  /** In the file's own address space; 0 without a file. */
  address: number;
}

/** Limit on open files; a host runs a few hundred. */
const maxFiles = 512;
/**
 * Limit on symbols and frame tables of all files, checked between windows. The least recently used files release theirs, and read them
 * again when hit.
 */
const maxTableBytes = 16 * 1024 * 1024;
/** Limit on processes with cached mappings, and how long they are kept without a sample. */
const maxProcesses = 512;
const unusedMs = 60_000;
/** Limit on cached addresses per process; all are dropped beyond it. */
const maxPlaces = 4_096;
/**
 * Minimum interval between reads of the mappings, however many addresses are unknown. Doubles after each read that found nothing: damaged
 * stacks contain random addresses.
 */
const rereadMs = 1_000;
const maxRereadMs = 30_000;

/** Libraries that hold a language runtime, where the program itself does not. */
const runtimeLibrary = /\/lib(?:python3|node)[^/]*\.so/;

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

  /** Evicts the least recently used quarter. */
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
  readonly #memory: ProcessMemory;
  #mappings: readonly CodeMapping[] = [];
  #readMs = Number.NEGATIVE_INFINITY;
  #rereadMs = rereadMs;
  /** The executable, once mappings were read. */
  #main: CodeFile | null = null;
  #runtime: LanguageRuntime | null = null;
  /** Few addresses occur in most samples. */
  readonly #places = new Map<number, CodePlace>();
  usedMs: number;

  constructor(pid: number, reader: CodeReader, files: FileCache, memory: ProcessMemory, nowMs: number) {
    this.#pid = pid;
    this.#reader = reader;
    this.#files = files;
    this.#memory = memory;
    this.usedMs = nowMs;
    this.#read(nowMs);
  }

  get isGo(): boolean {
    return this.#main?.isGo === true;
  }

  get build(): string | null {
    return this.#main?.build ?? null;
  }

  get runtime(): LanguageRuntime | null {
    return this.#runtime;
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

  /** Drops caches that only help within one window. */
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

  /** The mappings of an exited process stay. */
  #read(nowMs: number): boolean {
    this.#readMs = nowMs;
    const mappings = this.#reader.mappings(this.#pid);
    if (mappings === null || mappings.length === 0) return false;
    this.#mappings = mappings;
    this.#places.clear();
    // The kernel maps the executable below its libraries.
    const main = mappings.find(({ file }) => file !== null)?.file ?? null;
    const before = this.#main;
    this.#main = main === null ? null : this.#files.open(this.#pid, main, nowMs);
    // Another program after execve(2); a library may be mapped after the first sample.
    if (this.#runtime === null || before !== this.#main) this.#runtime = this.#findRuntime(main, nowMs);
    return true;
  }

  #findRuntime(main: MappedFile | null, nowMs: number): LanguageRuntime | null {
    const loaded = this.#mappings.flatMap((mapping) => {
      const isWanted = mapping.file !== null && (mapping.file === main || runtimeLibrary.test(mapping.file.path));
      const file = isWanted && mapping.file !== null ? this.#files.open(this.#pid, mapping.file, nowMs) : null;
      return file === null ? [] : [{ mapping, file }];
    });
    return findRuntime(loaded, (address, sizeBytes) => this.#memory.read(this.#pid, address, sizeBytes));
  }
}

interface KnownProcess {
  startedNs: number;
  code: ProcessCode;
  /** The runtime that the kernel program reads frames of. */
  inKernel: LanguageRuntime | null;
}

/** The code of processes, by pid and start time. */
export class ProcessCodes {
  readonly #reader: CodeReader;
  readonly #files: FileCache;
  /** Least recently used first. */
  readonly #processes = new Map<number, KnownProcess>();
  readonly #memory: ProcessMemory;
  readonly #runtimes: RuntimeTable;

  constructor(reader: CodeReader, files: FileCache, memory: ProcessMemory, runtimes: RuntimeTable) {
    this.#reader = reader;
    this.#files = files;
    this.#memory = memory;
    this.#runtimes = runtimes;
  }

  of(pid: number, startedNs: number, nowMs: number): ProcessCode {
    const known = this.#processes.get(pid);
    this.#processes.delete(pid);
    const isSame = known?.startedNs === startedNs;
    const code = isSame ? known.code : new ProcessCode(pid, this.#reader, this.#files, this.#memory, nowMs);
    code.usedMs = nowMs;
    const inKernel = this.#share(pid, startedNs, code.runtime, isSame ? known.inKernel : null);
    this.#processes.set(pid, { startedNs, code, inKernel });
    for (const oldest of this.#processes.keys()) {
      if (this.#processes.size <= maxProcesses) break;
      this.#forget(oldest);
    }
    return code;
  }

  /** What the kernel program has of the process from now on. */
  #share(pid: number, startedNs: number, runtime: LanguageRuntime | null, before: LanguageRuntime | null): LanguageRuntime | null {
    if (runtime === before) return before;
    if (runtime === null) this.#runtimes.remove(pid);
    else this.#runtimes.add(pid, startedNs, runtime.entry);
    return runtime;
  }

  #forget(pid: number): void {
    if ((this.#processes.get(pid)?.inKernel ?? null) !== null) this.#runtimes.remove(pid);
    this.#processes.delete(pid);
  }

  /** Call at the end of a window. */
  trim(nowMs: number): void {
    for (const [pid, { code }] of this.#processes) {
      if (nowMs - code.usedMs > unusedMs) this.#forget(pid);
      else code.forgetPlaces();
    }
    this.#files.trim();
  }
}
