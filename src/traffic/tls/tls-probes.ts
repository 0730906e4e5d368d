/**
 * Keeps the probes for plaintext where TLS is made: one set of links per file, however many processes run it, from soon after its first process has
 * started until some time after its last one has ended.
 */

import { basename } from "node:path";
import { matcherOf } from "../../base/name-pattern.ts";
import type { BpfLink, BpfObject, UprobeSites } from "../../bpf/index.ts";
import { type CodeMaps, createCodeMaps } from "../../host/index.ts";
import type { TrafficSettings, TrafficState } from "../core/messages.ts";
import { raiseControl } from "../kernel/kernel-controls.ts";
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
  /** Default: a process of its own for the files of each look around that are new. */
  planner?: ProbePlanner;
  /** Monotonic; default the process's own clock. */
  now?: () => number;
  /** How long probes stay in a file that nobody runs; defaults 5 min and, for files of containers, 15 s: a link keeps their mount from going. */
  unusedMs?: { host: number; elsewhere: number };
}

export interface TlsProbes extends AsyncDisposable {
  /** Finds what is new and attaches to it, detaches what is no longer used. Call it every two seconds; calls do not overlap. */
  refresh(signal?: AbortSignal): Promise<void>;
  /** Takes effect at the next `refresh`; what was read of an excluded program stops at once. */
  applySettings(settings: TrafficSettings["tls"]): void;
  /** Detaches everything at the next `refresh`, or attaches it again. */
  setPaused(isPaused: boolean): void;
  state(): TlsProbesState;
  /** Links that are attached now. */
  readonly linkCount: number;
}

/** Repeated from `probes/tls/binding.h`. */
const processReadable = 1;
const maxShown = 64;
const switchedOff = "switched off by config";

interface Attachment {
  links: BpfLink[];
  problem: string | null;
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
  /** Whom the kernel was told that it may read. */
  #readable = new Set<number>();
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
      await this.#explainOpaque();
    }
    for (const library of this.#finder.libraries()) {
      if (this.#closing !== undefined) return;
      await this.#settle(library, nowMs);
    }
  }

  /** Processes with TLS that no probe could bind. Those that run a known library have handshakes without a request, or are excluded. */
  async #explainOpaque(): Promise<void> {
    const pids: number[] = [];
    this.#object.map("tls_opaque").takeAll((key, at) => pids.push(key.readUInt32LE(at)));
    for (const pid of pids) {
      const executable = this.#finder.executableOf(pid);
      const files = this.#finder.filesOf(pid);
      if (executable === null || files === null || this.#finder.hasLibrary(pid)) continue;
      await this.#opaque.add(pid, executable, files);
    }
  }

  async #settle(library: TlsLibrary, nowMs: number): Promise<void> {
    const attachment = this.#attachments.get(library);
    const isWanted = this.#isActive && !this.#isOff(library);
    if (isWanted && attachment === undefined && library.users.size > 0) {
      this.#attachments.set(library, await this.#attach(library));
      return;
    }
    if (isWanted && !this.#isLongUnused(library, nowMs)) return;
    this.#attachments.delete(library);
    if (library.users.size === 0) this.#finder.forget(library);
    for (const link of attachment?.links ?? []) await link[Symbol.asyncDispose]();
  }

  /** Everybody who runs it is excluded: then no probe costs them anything. */
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
    // What the kernel says of a file that was replaced while it runs.
    const path = executable.replace(/ \(deleted\)$/, "");
    const isOne = matcherOf(this.#settings.excludedExecutables);
    return isOne(path) || isOne(basename(path));
  }

  #isLongUnused(library: TlsLibrary, nowMs: number): boolean {
    if (library.unusedSinceMs === null) return false;
    return nowMs - library.unusedSinceMs > (library.isOnHost ? this.#unusedMs.host : this.#unusedMs.elsewhere);
  }

  async #attach(library: TlsLibrary): Promise<Attachment> {
    if ("problem" in library.plan) return { links: [], problem: library.plan.problem };
    // The plan is of the bytes of this very file: it is attached to by descriptor, so that no other one can have taken its name meanwhile.
    using file = this.#finder.open(library);
    if (file === null) return { links: [], problem: "no running process lets it be opened" };
    const links: BpfLink[] = [];
    try {
      for (const [program, sites] of groupSites(this.#probesOf(library.plan), file.path))
        links.push(await this.#object.attachUprobes(program, sites));
      return { links, problem: null };
    } catch (error) {
      // Half of the probes would count half of the traffic: all or none.
      for (const link of links) await link[Symbol.asyncDispose]();
      return { links: [], problem: error instanceof Error ? error.message : String(error) };
    }
  }

  /** Where the kernel can, one program serves a call's begin and its return. */
  #probesOf({ probes }: ProbePlan): readonly Probe[] {
    return this.#object.programs.includes(sessionProgram) ? joinReturns(probes) : probes;
  }

  /**
   * Tells the kernel whom it may read. With exclusions that is only who runs a file with TLS, is known, and not excluded: a number that was given to another
   * process since the last look is not taken for the one that had it.
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

  /** Connections that were bound before their process was excluded. */
  #unbindOthers(readable: ReadonlySet<number>): void {
    const sockets = this.#object.map("tls_sockets");
    const keys: Buffer[] = [];
    sockets.readAll((key, at) => {
      if (!readable.has(key.readUInt32LE(at + 8))) keys.push(Buffer.from(key.subarray(at, at + sockets.keyBytes)));
    });
    for (const key of keys) sockets.delete(key);
    // What the kernel remembers of them is void.
    raiseControl(this.#object.map("controls"), "tlsUnbound");
  }

  state(): TlsProbesState {
    const shown: TlsProbesState = [];
    for (const library of this.#finder.libraries()) {
      if (shown.length >= maxShown) break;
      const attachment = this.#attachments.get(library);
      const isOff = this.#isOff(library);
      // Found, but not attached to yet: it is shown once that is done.
      if (library.users.size === 0 || (attachment === undefined && !isOff)) continue;
      const problem = isOff ? switchedOff : (attachment?.problem ?? null);
      shown.push({ path: library.path, library: kindOf(library), processes: library.users.size, problem });
    }
    for (const { path, problem, pids } of this.#opaque.values()) {
      if (shown.length < maxShown) shown.push({ path, library: "other", processes: pids.size, problem });
    }
    return shown;
  }

  [Symbol.asyncDispose](): Promise<void> {
    this.#closing ??= this.#close();
    return this.#closing;
  }

  async #close(): Promise<void> {
    this.#stop.abort();
    // A refresh under way may fail; what it attached is closed below all the same.
    await this.#running?.catch(() => undefined);
    const links = [...this.#attachments.values()].flatMap((one) => one.links);
    this.#attachments.clear();
    await Promise.all(links.map((link) => link[Symbol.asyncDispose]()));
  }
}

function kindOf({ plan, path, isExecutable }: TlsLibrary): TlsProbesState[number]["library"] {
  if (plan.library === "go") return "go";
  return isExecutable && /^node(js)?$/.test(basename(path)) ? "node" : "openssl";
}

const sessionProgram = "tls_call";

interface Probe extends Omit<PlannedProbe, "program"> {
  program: PlannedProbe["program"] | typeof sessionProgram;
}

/** A return probe and the one for the begin at the same place become one. */
function joinReturns(probes: readonly PlannedProbe[]): Probe[] {
  const returns = new Set(probes.filter(({ isReturn }) => isReturn).map(({ fileOffset }) => fileOffset));
  const begins = new Set(
    probes.filter(({ program, isReturn }) => program === "tls_enter" && !isReturn).map(({ fileOffset }) => fileOffset),
  );
  const isJoined = ({ fileOffset }: PlannedProbe): boolean => returns.has(fileOffset) && begins.has(fileOffset);
  return probes.flatMap((probe): Probe[] => {
    if (!isJoined(probe)) return [probe];
    return probe.isReturn ? [] : [{ ...probe, program: sessionProgram }];
  });
}

/** One link for all places of a program, at entries and at returns apart. */
function groupSites(probes: readonly Probe[], path: string): [program: string, sites: UprobeSites][] {
  const groups = new Map<string, Probe[]>();
  for (const probe of probes) {
    const key = `${probe.program} ${probe.isReturn}`;
    groups.set(key, [...(groups.get(key) ?? []), probe]);
  }
  // Exits first: an entry without its exit would leave a call open.
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
