/**
 * Finds the files of the host that implement TLS, and the processes that run them. Inspects processes when they are new, twice soon after (they load
 * libraries late, and exec other programs), and rarely from then on; inspects files once, as long as any process maps them.
 */

import { setImmediate } from "node:timers/promises";
import { findExportedFunctions, isGoProgram, mayDefine, readElfImage } from "../../code/index.ts";
import type { CodeMaps, MappedFile, OpenedFile } from "../../host/index.ts";
import type { PlanProblem, ProbePlan } from "./probe-plan.ts";
import type { ProbePlanner } from "./probe-planner.ts";

/** A file that implements TLS, and the processes that run it. */
export interface TlsLibrary {
  /** See `OpenedFile.identity`. */
  readonly identity: string;
  /** As the first process sees it. */
  readonly path: string;
  /** The program itself, not a library. */
  readonly isExecutable: boolean;
  /** A file of the host, not of a container. */
  readonly isOnHost: boolean;
  readonly plan: ProbePlan | PlanProblem;
  readonly users: ReadonlySet<number>;
  /** When the last user ended, on the caller's clock; null while there are users. */
  readonly unusedSinceMs: number | null;
}

export interface FinderChanges {
  added: TlsLibrary[];
  /** Processes that have ended. */
  gone: number[];
}

export interface LibraryFinder {
  /** Inspects processes that are due; call it every two seconds. `nowMs` is monotonic. */
  scan(nowMs: number, signal?: AbortSignal): Promise<FinderChanges>;
  libraries(): IterableIterator<TlsLibrary>;
  executableOf(pid: number): string | null;
  /** Makes the process due in the next scan. */
  recheck(pid: number): void;
  /** Code mappings of the process at its last inspection; null for an unknown process. */
  filesOf(pid: number): readonly MappedFile[] | null;
  /** Whether the process maps a file that implements TLS. */
  hasLibrary(pid: number): boolean;
  /** Opens the file of a library through one of its users; null without users. The caller closes it. */
  open(library: TlsLibrary): OpenedFile | null;
  /** Drops a library without users. */
  forget(library: TlsLibrary): void;
  readonly processCount: number;
  /** Files that could not be opened, or were skipped above the limits. */
  readonly skipped: number;
}

interface Process {
  executable: string | null;
  inspections: number;
  nextInspectionMs: number;
  files: Map<string, MappedFile>;
}

type Plan = ProbePlan | PlanProblem;

/** Becomes a `TlsLibrary` once it has a plan. */
interface Library extends Omit<TlsLibrary, "plan"> {
  plan: Plan | undefined;
  users: Set<number>;
  unusedSinceMs: number | null;
}

interface KnownFile {
  library: Library | null;
  users: number;
}

/** Delays between inspections; the last one repeats. Long delays are spread by pid, so that not all processes are due at once. */
const inspectionDelaysMs = [2_000, 8_000, 120_000];
const maxProcesses = 32_768;
const maxFiles = 16_384;
const maxLibraries = 1_024;
/** Kept while this process runs, also for unused files: a program that runs once a minute is planned once. */
const maxPlans = 8_192;
/** Files that are open at the same time. */
const maxPlannedAtOnce = 32;
/** Longest work on the caller's thread before it yields. */
const sliceMs = 4;

export function createLibraryFinder(maps: CodeMaps, planner: ProbePlanner): LibraryFinder {
  return new Finder(maps, planner);
}

class Finder implements LibraryFinder {
  readonly #maps: CodeMaps;
  readonly #planner: ProbePlanner;
  readonly #processes = new Map<number, Process>();
  readonly #files = new Map<string, KnownFile>();
  readonly #libraries = new Map<string, Library>();
  /** By `planName`; null for files without TLS. The oldest are evicted first. */
  readonly #plans = new Map<string, Plan | null>();
  #skipped = 0;

  constructor(maps: CodeMaps, planner: ProbePlanner) {
    this.#maps = maps;
    this.#planner = planner;
  }

  get processCount(): number {
    return this.#processes.size;
  }

  get skipped(): number {
    return this.#skipped;
  }

  *libraries(): IterableIterator<TlsLibrary> {
    for (const library of this.#libraries.values()) if (hasPlan(library)) yield library;
  }

  executableOf(pid: number): string | null {
    return this.#processes.get(pid)?.executable ?? null;
  }

  recheck(pid: number): void {
    const process = this.#processes.get(pid);
    if (process !== undefined) process.nextInspectionMs = 0;
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
    for (const pid of present) {
      const process = this.#processes.get(pid);
      if (process !== undefined && process.nextInspectionMs > nowMs) continue;
      this.#inspectProcess(pid, process, nowMs, changes);
      if (performance.now() - sliceStart < sliceMs) continue;
      await setImmediate(undefined, signal === undefined ? undefined : { signal });
      sliceStart = performance.now();
    }
    await this.#planAll(changes, signal);
    return changes;
  }

  #inspectProcess(pid: number, known: Process | undefined, nowMs: number, changes: FinderChanges): void {
    const code = this.#maps.read(pid);
    if (code === null) return;
    const process: Process = known ?? { executable: null, inspections: 0, nextInspectionMs: 0, files: new Map() };
    const delay = inspectionDelaysMs[Math.min(process.inspections, inspectionDelaysMs.length - 1)] as number;
    process.inspections++;
    process.nextInspectionMs = nowMs + delay + (delay > 60_000 ? pid % 30_000 : 0);
    this.#processes.set(pid, process);
    process.executable = code.executable;
    const before = process.files;
    process.files = new Map(code.files.map((file) => [file.key, file]));
    for (const file of code.files) {
      // A file that could not be opened, or whose library was dropped, is inspected again.
      if (before.has(file.key) && this.#files.has(file.key)) continue;
      const entry = this.#files.get(file.key) ?? this.#inspect(pid, file, code.executable === file.path, changes);
      if (entry === null) continue;
      entry.users++;
      this.#use(entry.library, pid);
    }
    for (const key of before.keys()) {
      if (!process.files.has(key)) this.#release(key, pid, nowMs);
    }
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

  /** Drops a file that no process maps: its inode may be reused. */
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
    const name = planName(opened.identity, isExecutable);
    if (!this.#plans.has(name) && !mayImplementTls(opened, isExecutable)) this.#remember(name, null);
    const plan = this.#plans.get(name);
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
    if (hasPlan(library)) changes.added.push(library);
    return known;
  }

  async #planAll(changes: FinderChanges, signal: AbortSignal | undefined): Promise<void> {
    const waiting = [...this.#libraries.values()].filter((library) => !hasPlan(library));
    for (let start = 0; start < waiting.length; start += maxPlannedAtOnce) {
      await this.#plan(waiting.slice(start, start + maxPlannedAtOnce), changes, signal);
    }
  }

  async #plan(libraries: readonly Library[], changes: FinderChanges, signal: AbortSignal | undefined): Promise<void> {
    using opened = this.#openAll(libraries);
    if (opened.files.length === 0) return;
    const plans = await this.#planner.plan(
      opened.files.map(({ file, library }) => ({ fd: file.fd, isExecutable: library.isExecutable })),
      signal,
    );
    for (const [index, { library }] of opened.files.entries()) {
      const { plan, isFinal } = plans[index] ?? { plan: null, isFinal: false };
      if (isFinal) this.#remember(planName(library.identity, library.isExecutable), plan);
      library.plan = plan ?? undefined;
      if (hasPlan(library)) changes.added.push(library);
      else this.#reject(library);
    }
  }

  /** Drops libraries that cannot be opened through any process; they are inspected again when another one runs them. */
  #openAll(libraries: readonly Library[]): Disposable & { files: { library: Library; file: OpenedFile }[] } {
    const files: { library: Library; file: OpenedFile }[] = [];
    for (const library of libraries) {
      const file = this.#open(library);
      if (file === null) this.#dropLibrary(library);
      else files.push({ library, file });
    }
    return {
      files,
      [Symbol.dispose]: () => {
        for (const { file } of files) file[Symbol.dispose]();
      },
    };
  }

  #reject(library: Library): void {
    this.#libraries.delete(library.identity);
    for (const file of this.#files.values()) {
      if (file.library === library) file.library = null;
    }
  }

  #remember(name: string, plan: Plan | null): void {
    this.#plans.set(name, plan);
    for (const oldest of this.#plans.keys()) {
      if (this.#plans.size <= maxPlans) break;
      this.#plans.delete(oldest);
    }
  }

  open(library: TlsLibrary): OpenedFile | null {
    return this.#open(library);
  }

  #open(library: Pick<TlsLibrary, "users" | "identity">): OpenedFile | null {
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
    if (library.users.size === 0) this.#dropLibrary(library);
  }

  #dropLibrary(library: Pick<TlsLibrary, "identity">): void {
    this.#libraries.delete(library.identity);
    for (const [key, file] of this.#files) {
      if (file.library === library) this.#files.delete(key);
    }
  }
}

/** The identity changes with the file. A file is inspected less closely as a library than as a program. */
function planName(identity: string, isExecutable: boolean): string {
  return `${isExecutable ? "program" : "library"} ${identity}`;
}

function hasPlan(library: Library): library is Library & TlsLibrary {
  return library.plan !== undefined;
}

/** Bytes of string tables that are searched, at about 1 GB/s. */
const maxStringBytes = 2 * 1024 * 1024;
const signature = "SSL_read";

/**
 * Whether a file may have a plan. Costs a few small reads, and a search of symbol names in programs with a full symbol table. True for every file
 * that `planProbes()` has a plan for, and for some other programs that are written in Go or very large.
 */
function mayImplementTls({ readAt }: Pick<OpenedFile, "readAt">, isExecutable: boolean): boolean {
  const image = readElfImage(readAt);
  if (image === null) return false;
  if (findExportedFunctions(image, [signature]).size > 0) return true;
  return isExecutable && (isGoProgram(image) || mayDefine(image, signature, maxStringBytes));
}
