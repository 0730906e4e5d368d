/**
 * Keeps plaintext probes attached to files that implement TLS: one set of links per file, however many processes run it, from soon after its first
 * process has started until some time after its last one has ended.
 */

import { basename } from "node:path";
import { matcherOf } from "../../base/name-pattern.ts";
import type { BpfLink, BpfObject, UprobeSites } from "../../bpf/index.ts";
import { type CodeMaps, createCodeMaps } from "../../host/index.ts";
import type { TrafficSettings, TrafficState, UnseenRequests } from "../core/messages.ts";
import { incrementControl } from "../kernel/kernel-controls.ts";
import { createLibraryFinder, type LibraryFinder, type TlsLibrary } from "./library-finder.ts";
import { OpaquePrograms } from "./opaque-programs.ts";
import type { PlannedProbe, ProbePlan } from "./probe-plan.ts";
import { createProbePlanner, type ProbePlanner } from "./probe-planner.ts";

export type TlsProbesState = TrafficState["tls"];

export interface TlsProbesOptions {
  /** With the programs and maps of `probes/tls/uprobes.h`. */
  object: Pick<BpfObject, "attachUprobes" | "map" | "programs">;
  settings: TrafficSettings["tls"];
  /** Default: this host. */
  maps?: CodeMaps;
  /** Default: a child process for the new files of each scan. */
  planner?: ProbePlanner;
  /** Monotonic; default the process's own clock. */
  now?: () => number;
  /** How long probes stay in an unused file; defaults 5 min and, for files of containers, 15 s: a link keeps their mount busy. */
  unusedMs?: { host: number; elsewhere: number };
}

export interface TlsProbes extends AsyncDisposable {
  /** Attaches to new files, and detaches from unused ones. Call it every two seconds; calls do not overlap. */
  refresh(signal?: AbortSignal): Promise<void>;
  /** Takes effect at the next `refresh`; reading of an excluded program stops at once. */
  applySettings(settings: TrafficSettings["tls"]): void;
  /** Detaches everything at the next `refresh`, or attaches it again. */
  setPaused(isPaused: boolean): void;
  state(): TlsProbesState;
  /** Processes with TLS connections whose plaintext cannot be read, and why. */
  unreadable(): UnseenRequests[];
  /** Currently attached links. */
  readonly linkCount: number;
}

/** Same as in `probes/tls/binding.h`. */
const processReadable = 1;
const maxShown = 64;
const maxUnreadable = 1_024;
const switchedOff = "switched off by config";

/** Pauses after failed attempts; the last one repeats. A new process is tried at once. */
const retryAfterMs = [2_000, 4_000, 8_000, 16_000, 32_000, 60_000];

interface Attachment {
  links: BpfLink[];
  problem: string | null;
  /** When to retry; null after a permanent failure. */
  retry: { failures: number; atMs: number; users: ReadonlySet<number> } | null;
}

export function createTlsProbes(options: TlsProbesOptions): TlsProbes {
  return new Probes(options);
}

class Probes implements TlsProbes {
  readonly #object: TlsProbesOptions["object"];
  readonly #maps: CodeMaps;
  readonly #finder: LibraryFinder;
  readonly #opaque: OpaquePrograms;
  readonly #now: () => number;
  readonly #unusedMs: { host: number; elsewhere: number };
  readonly #attachments = new Map<TlsLibrary, Attachment>();
  #settings: TrafficSettings["tls"];
  #isStrict: boolean | undefined;
  /** Processes that the kernel may read. */
  #readable = new Set<number>();
  /** Processes with a known library that had connections which no probe saw. */
  readonly #opaqueUsers = new Set<number>();
  #isPaused = false;
  readonly #stop = new AbortController();
  #running: Promise<void> | undefined;
  #closing: Promise<void> | undefined;

  constructor({ object, settings, maps, planner, now, unusedMs }: TlsProbesOptions) {
    this.#object = object;
    this.#settings = settings;
    this.#maps = maps ?? createCodeMaps();
    this.#finder = createLibraryFinder(this.#maps, planner ?? createProbePlanner());
    this.#opaque = new OpaquePrograms(this.#maps);
    this.#now = now ?? (() => performance.now());
    this.#unusedMs = unusedMs ?? { host: 300_000, elsewhere: 15_000 };
  }

  get linkCount(): number {
    let count = 0;
    for (const { links } of this.#attachments.values()) count += links.length;
    return count;
  }

  applySettings(settings: TrafficSettings["tls"]): void {
    this.#settings = settings;
  }

  setPaused(isPaused: boolean): void {
    this.#isPaused = isPaused;
  }

  get #isActive(): boolean {
    return this.#settings.isEnabled && !this.#isPaused;
  }

  refresh(signal?: AbortSignal): Promise<void> {
    if (this.#closing !== undefined) return this.#closing;
    const stop = this.#stop.signal;
    this.#running ??= this.#refresh(signal === undefined ? stop : AbortSignal.any([signal, stop])).finally(() => {
      this.#running = undefined;
    });
    return this.#running;
  }

  async #refresh(signal: AbortSignal): Promise<void> {
    const nowMs = this.#now();
    if (this.#isActive) {
      const changes = await this.#finder.scan(nowMs, signal);
      this.#writeProcesses();
      const gone = new Set(changes.gone);
      this.#opaque.drop((pid) => gone.has(pid) || this.#finder.hasLibrary(pid));
      for (const pid of gone) this.#opaqueUsers.delete(pid);
      await this.#explainOpaque();
    }
    for (const library of this.#finder.libraries()) {
      if (this.#closing !== undefined) return;
      await this.#settle(library, nowMs);
    }
  }

  /** Processes with TLS that no probe could bind. Those with a supported library had handshakes without a request, or are excluded. */
  async #explainOpaque(): Promise<void> {
    const pids: number[] = [];
    this.#object.map("tls_opaque").takeAll((key, at) => pids.push(key.readUInt32LE(at)));
    for (const pid of pids) {
      const executable = this.#finder.executableOf(pid);
      const files = this.#finder.filesOf(pid);
      if (executable === null || files === null) continue;
      if (this.#finder.hasLibrary(pid)) this.#opaqueUsers.add(pid);
      else await this.#opaque.add(pid, executable, files);
    }
  }

  async #settle(library: TlsLibrary, nowMs: number): Promise<void> {
    const attachment = this.#attachments.get(library);
    const isWanted = this.#isActive && !this.#isOff(library);
    if (isWanted && library.users.size > 0 && (attachment === undefined || isDue(attachment, library, nowMs))) {
      this.#attachments.set(library, await this.#attach(library, nowMs, attachment?.retry?.failures ?? 0));
      return;
    }
    if (isWanted && !this.#isLongUnused(library, nowMs)) return;
    this.#attachments.delete(library);
    if (library.users.size === 0) this.#finder.forget(library);
    for (const link of attachment?.links ?? []) await link[Symbol.asyncDispose]();
  }

  /** Whether all its users are excluded: then it gets no probes, which would slow them down. */
  #isOff(library: TlsLibrary): boolean {
    if (!this.#hasExclusions || library.users.size === 0) return false;
    for (const pid of library.users) {
      if (!this.#isExcluded(pid)) return false;
    }
    return true;
  }

  get #hasExclusions(): boolean {
    return this.#settings.excludedExecutables.length > 0 || (this.#settings.excludedPids?.length ?? 0) > 0;
  }

  #isExcluded(pid: number): boolean {
    if (this.#settings.excludedPids?.includes(pid)) return true;
    const executable = this.#finder.executableOf(pid);
    if (executable === null) return false;
    // The kernel's suffix for a file that was replaced while running.
    const path = executable.replace(/ \(deleted\)$/, "");
    const isOne = matcherOf(this.#settings.excludedExecutables);
    return isOne(path) || isOne(basename(path));
  }

  #isLongUnused(library: TlsLibrary, nowMs: number): boolean {
    if (library.unusedSinceMs === null) return false;
    return nowMs - library.unusedSinceMs > (library.isOnHost ? this.#unusedMs.host : this.#unusedMs.elsewhere);
  }

  async #attach(library: TlsLibrary, nowMs: number, failures: number): Promise<Attachment> {
    if ("problem" in library.plan) return { links: [], problem: library.plan.problem, retry: null };
    const pauseMs = retryAfterMs[Math.min(failures, retryAfterMs.length - 1)] ?? 0;
    const retry = { failures: failures + 1, atMs: nowMs + pauseMs, users: new Set(library.users) };
    // The plan is for these bytes: attach by descriptor, since another file may have taken the name.
    using file = this.#finder.open(library);
    if (file === null) return { links: [], problem: "it cannot be opened through any running process", retry };
    const links: BpfLink[] = [];
    try {
      for (const [program, sites] of groupSites(this.#probesOf(library.plan), file.path))
        links.push(await this.#object.attachUprobes(program, sites));
      return { links, problem: null, retry: null };
    } catch (error) {
      // All or none: with some of the probes, part of the traffic would be missing.
      for (const link of links) await link[Symbol.asyncDispose]();
      return { links: [], problem: error instanceof Error ? error.message : String(error), retry };
    }
  }

  /** Where the kernel supports it, one program serves both entry and return of a call. */
  #probesOf({ probes }: ProbePlan): readonly Probe[] {
    return this.#object.programs.includes(sessionProgram) ? joinReturns(probes) : probes;
  }

  /**
   * Updates which processes the kernel may read. With exclusions, only known processes that run a file with TLS and are not excluded: a pid that was
   * reused since the last scan is not mistaken for its former owner.
   */
  #writeProcesses(): void {
    const isStrict = this.#hasExclusions;
    const isNew = isStrict !== this.#isStrict;
    if (isNew) this.#object.map("tls_controls").update(word(0), word(isStrict ? 1 : 0));
    this.#isStrict = isStrict;
    const readable = new Set<number>();
    if (isStrict) {
      for (const { users } of this.#finder.libraries()) for (const pid of users) if (this.#mayRead(pid)) readable.add(pid);
    }
    const states = this.#object.map("tls_processes");
    const dropped = [...this.#readable].filter((pid) => !readable.has(pid));
    for (const pid of dropped) states.delete(word(pid));
    for (const pid of readable) {
      if (!this.#readable.has(pid)) states.update(word(pid), word(processReadable));
    }
    this.#readable = readable;
    if (isStrict && (isNew || dropped.length > 0)) this.#unbindOthers(readable);
  }

  #mayRead(pid: number): boolean {
    const executable = this.#finder.executableOf(pid);
    if (executable === null || this.#isExcluded(pid)) return false;
    if (this.#maps.executableOf(pid) === executable) return true;
    this.#finder.recheck(pid);
    return false;
  }

  /** Unbinds connections that were bound before their process was excluded. */
  #unbindOthers(readable: ReadonlySet<number>): void {
    const sockets = this.#object.map("tls_sockets");
    const keys: Buffer[] = [];
    sockets.readAll((key, at) => {
      if (!readable.has(key.readUInt32LE(at + 8))) keys.push(Buffer.from(key.subarray(at, at + sockets.keyBytes)));
    });
    for (const key of keys) sockets.delete(key);
    // Invalidates the kernel's bindings.
    incrementControl(this.#object.map("controls"), "tlsUnbound");
  }

  state(): TlsProbesState {
    const shown: TlsProbesState = [];
    for (const library of this.#finder.libraries()) {
      if (shown.length >= maxShown) break;
      const attachment = this.#attachments.get(library);
      const isOff = this.#isOff(library);
      // Found, but not attached yet: shown once it is.
      if (library.users.size === 0 || (attachment === undefined && !isOff)) continue;
      const problem = isOff ? switchedOff : (attachment?.problem ?? null);
      shown.push({ path: library.path, library: kindOf(library), processes: library.users.size, problem });
    }
    for (const { path, problem, pids } of this.#opaque.values()) {
      if (shown.length < maxShown) shown.push({ path, library: "other", processes: pids.size, problem });
    }
    return shown;
  }

  unreadable(): UnseenRequests[] {
    const unseen = (pid: number, detail: string): UnseenRequests => ({ pid, reason: "tls-unreadable", detail, count: 1 });
    const found = [...this.#opaque.values()].flatMap(({ pids, problem }) => [...pids].map((pid) => unseen(pid, problem)));
    for (const [{ users }, { problem }] of this.#attachments) {
      if (problem === null) continue;
      for (const pid of users) if (this.#opaqueUsers.has(pid)) found.push(unseen(pid, problem));
    }
    return found.slice(0, maxUnreadable);
  }

  [Symbol.asyncDispose](): Promise<void> {
    this.#closing ??= this.#close();
    return this.#closing;
  }

  async #close(): Promise<void> {
    this.#stop.abort();
    // A running refresh may fail; what it attached is closed below nevertheless.
    await this.#running?.catch(() => undefined);
    const links = [...this.#attachments.values()].flatMap((one) => one.links);
    this.#attachments.clear();
    await Promise.all(links.map((link) => link[Symbol.asyncDispose]()));
  }
}

/** Whether a failed attempt is repeated: a process runs the file that did not do so then, or the pause is over. */
function isDue({ retry }: Attachment, { users }: TlsLibrary, nowMs: number): boolean {
  if (retry === null) return false;
  if (nowMs >= retry.atMs) return true;
  for (const pid of users) if (!retry.users.has(pid)) return true;
  return false;
}

function kindOf({ plan, path, isExecutable }: TlsLibrary): TlsProbesState[number]["library"] {
  if (plan.library === "go") return "go";
  return isExecutable && /^node(js)?$/.test(basename(path)) ? "node" : "openssl";
}

const sessionProgram = "tls_call";

interface Probe extends Omit<PlannedProbe, "program"> {
  program: PlannedProbe["program"] | typeof sessionProgram;
}

/** Merges an entry probe and a return probe at the same site. */
function joinReturns(probes: readonly PlannedProbe[]): Probe[] {
  const returns = new Set(probes.filter(({ isReturn }) => isReturn).map(({ fileOffset }) => fileOffset));
  const entries = new Set(
    probes.filter(({ program, isReturn }) => program === "tls_enter" && !isReturn).map(({ fileOffset }) => fileOffset),
  );
  const isJoined = ({ fileOffset }: PlannedProbe): boolean => returns.has(fileOffset) && entries.has(fileOffset);
  return probes.flatMap((probe): Probe[] => {
    if (!isJoined(probe)) return [probe];
    return probe.isReturn ? [] : [{ ...probe, program: sessionProgram }];
  });
}

/** One link for all sites of a program, separate for entries and returns. */
function groupSites(probes: readonly Probe[], path: string): [program: string, sites: UprobeSites][] {
  const groups = new Map<string, Probe[]>();
  for (const probe of probes) {
    const key = `${probe.program} ${probe.isReturn}`;
    groups.set(key, [...(groups.get(key) ?? []), probe]);
  }
  // Exits first: an entry without its exit would never end its call.
  return [...groups.values()].reverse().map((group) => [
    (group[0] as Probe).program,
    {
      path,
      offsets: group.map(({ fileOffset }) => fileOffset),
      cookies: group.map(({ cookie }) => BigInt(cookie)),
      isReturn: (group[0] as Probe).isReturn,
      isSession: (group[0] as Probe).program === sessionProgram,
    },
  ]);
}

function word(value: number): Buffer {
  const bytes = Buffer.alloc(4);
  bytes.writeUInt32LE(value);
  return bytes;
}
