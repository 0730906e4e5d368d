/**
 * Which files of the host make TLS, and which processes run them. Looks at processes when they are new, twice soon after (they load libraries late, and
 * become other programs), and rarely from then on; at files once, as long as any process has them mapped.
 */

import { setImmediate } from "node:timers/promises";
import { type CodeMaps, type MappedFile, type OpenedFile, readElfImage } from "../../host/index.ts";
import { unloadDisassembler } from "../../probes/index.ts";
import { type PlanProblem, type ProbePlan, planProbes } from "./probe-plan.ts";

/** A file with TLS in it, and who runs it. */
export interface TlsLibrary {
  /** See `OpenedFile.identity`. */
  readonly identity: string;
  /** As the first process sees it. */
  readonly path: string;
  /** It is the program itself, not a library of it. */
  readonly isExecutable: boolean;
  /** The host's own file, not one of a container. */
  readonly isOnHost: boolean;
  readonly plan: ProbePlan | PlanProblem;
  readonly users: ReadonlySet<number>;
  /** When the last user was gone, on the caller's clock; null while there are users. */
  readonly unusedSinceMs: number | null;
}

export interface FinderChanges {
  added: TlsLibrary[];
  /** Processes that are gone. */
  gone: number[];
}

export interface LibraryFinder {
  /** One look around; call it every two seconds. `nowMs` is monotonic. */
  scan(nowMs: number, signal?: AbortSignal): Promise<FinderChanges>;
  libraries(): IterableIterator<TlsLibrary>;
  executableOf(pid: number): string | null;
  /** Has the process looked at again in the next scan. */
  recheck(pid: number): void;
  /** What the process has mapped as code, as of the last look; null for an unknown process. */
  filesOf(pid: number): readonly MappedFile[] | null;
  /** Whether the process runs a file with TLS. */
  hasLibrary(pid: number): boolean;
  /** Opens the file of a library through one of its users; null when none is left. The caller closes it. */
  open(library: TlsLibrary): OpenedFile | null;
  /** Lets go of a library that nobody uses any more. */
  forget(library: TlsLibrary): void;
  readonly processCount: number;
  /** Files that could not be opened, and those left out above the limits. */
  readonly skipped: number;
}

interface Process {
  executable: string | null;
  looks: number;
  nextLookMs: number;
  files: Map<string, MappedFile>;
}

interface Library extends TlsLibrary {
  users: Set<number>;
  unusedSinceMs: number | null;
}

interface KnownFile {
  library: Library | null;
  users: number;
}

/** After a look, how long until the next: the last one repeats. Spread a little by process number, so that not all are due at once. */
const lookAfterMs = [2_000, 8_000, 120_000];
const maxProcesses = 32_768;
const maxFiles = 16_384;
const maxLibraries = 1_024;
/** Work on the caller's thread before others get their turn. */
const sliceMs = 4;

export function createLibraryFinder(maps: CodeMaps): LibraryFinder {
  return new Finder(maps);
}

class Finder implements LibraryFinder {
  readonly #maps: CodeMaps;
  readonly #processes = new Map<number, Process>();
  readonly #files = new Map<string, KnownFile>();
  readonly #libraries = new Map<string, Library>();
  #skipped = 0;

  constructor(maps: CodeMaps) {
    this.#maps = maps;
  }

  get processCount(): number {
    return this.#processes.size;
  }

  get skipped(): number {
    return this.#skipped;
  }

  libraries(): IterableIterator<TlsLibrary> {
    return this.#libraries.values();
  }

  executableOf(pid: number): string | null {
    return this.#processes.get(pid)?.executable ?? null;
  }

  recheck(pid: number): void {
    const process = this.#processes.get(pid);
    if (process !== undefined) process.nextLookMs = 0;
  }

  filesOf(pid: number): readonly MappedFile[] | null {
    const process = this.#processes.get(pid);
    return process === undefined ? null : [...process.files.values()];
  }

  hasLibrary(pid: number): boolean {
    for (const library of this.#libraries.values()) {
      if (library.users.has(pid)) return true;
    }
    return false;
  }

  async scan(nowMs: number, signal?: AbortSignal): Promise<FinderChanges> {
    const changes: FinderChanges = { added: [], gone: [] };
    const present = new Set(this.#maps.listProcesses().slice(0, maxProcesses));
    for (const [pid, process] of this.#processes) {
      if (present.has(pid)) continue;
      this.#drop(pid, process, nowMs);
      changes.gone.push(pid);
    }
    let sliceStart = performance.now();
    let hasPlanned = false;
    for (const pid of present) {
      const process = this.#processes.get(pid);
      if (process !== undefined && process.nextLookMs > nowMs) continue;
      hasPlanned = this.#look(pid, process, nowMs, changes) || hasPlanned;
      if (performance.now() - sliceStart < sliceMs) continue;
      await setImmediate(undefined, signal === undefined ? undefined : { signal });
      sliceStart = performance.now();
    }
    if (hasPlanned) unloadDisassembler();
    return changes;
  }

  /** True when machine code was read. */
  #look(pid: number, known: Process | undefined, nowMs: number, changes: FinderChanges): boolean {
    const code = this.#maps.read(pid);
    if (code === null) return false;
    const process: Process = known ?? { executable: null, looks: 0, nextLookMs: 0, files: new Map() };
    const delay = lookAfterMs[Math.min(process.looks, lookAfterMs.length - 1)] as number;
    process.looks++;
    process.nextLookMs = nowMs + delay + (delay > 60_000 ? pid % 30_000 : 0);
    this.#processes.set(pid, process);
    process.executable = code.executable;
    const before = process.files;
    process.files = new Map(code.files.map((file) => [file.key, file]));
    let hasPlanned = false;
    for (const file of code.files) {
      if (before.has(file.key)) continue;
      const entry = this.#files.get(file.key) ?? this.#inspect(pid, file, code.executable === file.path, changes);
      if (entry === null) continue;
      hasPlanned ||= entry.users === 0 && entry.library !== null;
      entry.users++;
      this.#use(entry.library, pid);
    }
    for (const key of before.keys()) {
      if (!process.files.has(key)) this.#release(key, pid, nowMs);
    }
    return hasPlanned;
  }

  #use(library: Library | null, pid: number): void {
    if (library === null) return;
    library.users.add(pid);
    library.unusedSinceMs = null;
  }

  #drop(pid: number, process: Process, nowMs: number): void {
    this.#processes.delete(pid);
    for (const key of process.files.keys()) this.#release(key, pid, nowMs);
  }

  /** A file that nobody has mapped is forgotten: its inode may become another file's. */
  #release(key: string, pid: number, nowMs: number): void {
    const file = this.#files.get(key);
    if (file === undefined) return;
    file.users--;
    if (file.users <= 0) this.#files.delete(key);
    if (file.library === null) return;
    file.library.users.delete(pid);
    if (file.library.users.size === 0) file.library.unusedSinceMs ??= nowMs;
  }

  #inspect(pid: number, file: MappedFile, isExecutable: boolean, changes: FinderChanges): KnownFile | null {
    if (this.#files.size >= maxFiles || this.#libraries.size >= maxLibraries) {
      this.#skipped++;
      return null;
    }
    using opened = this.#maps.open(pid, file);
    if (opened === null) {
      this.#skipped++;
      return null;
    }
    const known: KnownFile = { library: this.#libraries.get(opened.identity) ?? null, users: 0 };
    this.#files.set(file.key, known);
    if (known.library !== null) return known;
    const plan = planFile(opened, isExecutable);
    if (plan === null) return known;
    const library: Library = {
      identity: opened.identity,
      path: file.path,
      isExecutable,
      isOnHost: this.#maps.isOnHost(opened, file.path),
      plan,
      users: new Set(),
      unusedSinceMs: null,
    };
    this.#libraries.set(library.identity, library);
    known.library = library;
    changes.added.push(library);
    return known;
  }

  open(library: TlsLibrary): OpenedFile | null {
    for (const pid of library.users) {
      for (const file of this.#processes.get(pid)?.files.values() ?? []) {
        if (this.#files.get(file.key)?.library !== library) continue;
        const opened = this.#maps.open(pid, file);
        if (opened?.identity === library.identity) return opened;
        opened?.[Symbol.dispose]();
      }
    }
    return null;
  }

  forget(library: TlsLibrary): void {
    if (library.users.size > 0) return;
    this.#libraries.delete(library.identity);
    for (const [key, file] of this.#files) {
      if (file.library === library) this.#files.delete(key);
    }
  }
}

/** Null for a file without TLS. Nothing that a file holds may end the scan. */
function planFile(opened: OpenedFile, isExecutable: boolean): ProbePlan | PlanProblem | null {
  const image = readElfImage(opened.readAt);
  if (image === null) return null;
  try {
    return planProbes(image, isExecutable);
  } catch (error) {
    // Symbols are there, but the bytes at them are no machine code, or it cannot be read on this processor.
    return { library: "openssl", problem: error instanceof Error ? error.message : String(error) };
  }
}
