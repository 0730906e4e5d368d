/** A BPF object from file to attached programs. Nothing is pinned: when this process ends, in whatever way, the kernel unloads everything. */

import { CoralError } from "../base/errors.ts";
import { ResourceStack } from "../base/resource-stack.ts";
import { type BpfMap, createBpfMap } from "./bpf-map.ts";
import { parseBtf } from "./btf-layout.ts";
import { type Libbpf, loadLibbpf, type Pointer } from "./libbpf.ts";
import { attachCpuClock } from "./perf-events.ts";
import { enableProgramStats, type ProgramStats, readProgramStats } from "./program-stats.ts";
import { openRingBuffer, type RingBuffer } from "./ring-buffer.ts";
import { openRingWatch, type RingWatch } from "./ring-watch.ts";
import {
  attachUprobeMulti,
  type UprobeSites,
  uprobeMultiAttachType,
  uprobeSessionAttachType,
  uprobeSessionSection,
} from "./uprobe-multi.ts";

/** Keeps a program attached. Disposal is idempotent, and waits off the main thread until the kernel has detached it. */
export type BpfLink = AsyncDisposable;

export interface LoadBpfOptions {
  path: string;
  /** Which programs to load; default all. A program that is not loaded costs nothing and cannot be rejected. */
  isWanted?: (name: string, section: string) => boolean;
  /** Programs of section `tp_btf/…` that are skipped if the kernel lacks the tracepoint; else the whole object is rejected. */
  isOptional?: (name: string, section: string) => boolean;
  /** Values of `const volatile` variables. A number is written in the variable's own size; bytes must have its size. */
  constants?: Readonly<Record<string, number | bigint | boolean | Uint8Array>>;
  /** Sizes by map name. For a ring buffer, its bytes, which libbpf rounds to a power of two. */
  maxEntries?: Readonly<Record<string, number>>;
}

export interface BpfObject extends AsyncDisposable {
  /** Names of the loaded programs. */
  readonly programs: readonly string[];
  /** Throws `not-found` for an unknown name. */
  map(name: string): BpfMap;
  /** All maps, to measure their memory. */
  maps(): BpfMap[];
  /** Mapped at the first call, unmapped when the object closes. */
  ring(mapName: string): RingBuffer;
  /** Calls `onWake` whenever a program wakes the ring's readers, until the object closes. Uses a thread of the pool. */
  watchRing(mapName: string, onWake: () => void): void;
  /** Attaches a program to the hook of its section. */
  attach(program: string): BpfLink;
  /** Attaches a program of section `uprobe` to sites in a file. */
  attachUprobes(program: string, sites: UprobeSites): Promise<BpfLink>;
  /** Runs a program of section `perf_event` on every processor, `hz` times per second. */
  attachCpuClock(program: string, hz: number): { link: BpfLink; processors: number };
  /** Runs a program of section `syscall` once, on the caller's thread, and returns its result. The program may change `context`. */
  run(program: string, context?: Buffer): number;
  stats(): ProgramStats[];
  /** See `enableProgramStats()`; null if the kernel refuses. */
  enableStats(): Disposable | null;
}

const EPERM = 1;
const EACCES = 13;
const BPF_PROG_TEST_RUN = 10;
const BTF_KIND_TYPEDEF = 8;

/**
 * Opens and loads an object, with long steps off the main thread. Throws `unsupported` or `not-permitted` with details `stage`, `errno` and `log`,
 * and then leaves nothing loaded.
 */
export async function loadBpfObject(options: LoadBpfOptions): Promise<BpfObject> {
  const libbpf = loadLibbpf();
  libbpf.takeLog();
  const object = libbpf.openFile(options.path);
  if (object === null) throw refused(libbpf, options.path, "open", libbpf.errno());
  try {
    const programs = choosePrograms(libbpf, object, options);
    for (const [name, entries] of Object.entries(options.maxEntries ?? {})) {
      const result = libbpf.setMapMaxEntries(findMap(libbpf, object, name), entries);
      if (result !== 0) throw refused(libbpf, options.path, "open", -result);
    }
    writeConstants(libbpf, object, options.constants ?? {});
    const result = await libbpf.loadAsync(object);
    if (result !== 0) throw refused(libbpf, options.path, "load", -result);
    return new LoadedObject(libbpf, object, programs);
  } catch (error) {
    await libbpf.closeObjectAsync(object);
    throw error;
  }
}

function choosePrograms(libbpf: Libbpf, object: Pointer, { isWanted, isOptional }: LoadBpfOptions): Map<string, Pointer> {
  const programs = new Map<string, Pointer>();
  const optional: { name: string; tracepoint: string }[] = [];
  for (let program = libbpf.nextProgram(object, null); program !== null; program = libbpf.nextProgram(object, program)) {
    const name = libbpf.programName(program);
    const section = libbpf.programSection(program);
    const isChosen = isWanted?.(name, section) ?? true;
    libbpf.setAutoload(program, isChosen);
    if (!isChosen) continue;
    programs.set(name, program);
    if (section.startsWith("tp_btf/") && isOptional?.(name, section) === true) optional.push({ name, tracepoint: section.slice(7) });
    // The type of uprobe is fixed at load time, and libbpf 1.1 knows only the classic one.
    if (section === "uprobe" || section === "uretprobe") libbpf.setExpectedAttachType(program, uprobeMultiAttachType);
    if (section === uprobeSessionSection) libbpf.setExpectedAttachType(program, uprobeSessionAttachType);
  }
  if (optional.length > 0) leaveOutMissing(libbpf, programs, optional);
  return programs;
}

/** A typed tracepoint appears in the kernel's BTF as a typedef of this name. */
function leaveOutMissing(libbpf: Libbpf, programs: Map<string, Pointer>, optional: readonly { name: string; tracepoint: string }[]): void {
  const btf = libbpf.loadKernelBtf();
  for (const { name, tracepoint } of optional) {
    if (btf !== null && libbpf.findType(btf, `btf_trace_${tracepoint}`, BTF_KIND_TYPEDEF) > 0) continue;
    libbpf.setAutoload(programs.get(name) ?? null, false);
    programs.delete(name);
  }
  if (btf !== null) libbpf.freeBtf(btf);
}

function findMap(libbpf: Libbpf, object: Pointer, name: string): Pointer {
  const map = libbpf.findMap(object, name);
  if (map === null) throw new CoralError({ code: "not-found", message: `Cannot find BPF map "${name}": the object has none` });
  return map;
}

function writeConstants(libbpf: Libbpf, object: Pointer, constants: NonNullable<LoadBpfOptions["constants"]>): void {
  if (Object.keys(constants).length === 0) return;
  const memory = libbpf.mapInitialValue(findMap(libbpf, object, ".rodata"));
  const variables = parseBtf(libbpf.objectBtf(object)).variables(".rodata");
  for (const [name, value] of Object.entries(constants)) {
    const place = variables.get(name);
    if (memory === null || place === undefined || place.offsetBytes + place.sizeBytes > memory.length) {
      throw new CoralError({ code: "not-found", message: `Cannot set constant "${name}": the object has none in .rodata` });
    }
    const { offsetBytes, sizeBytes } = place;
    if (value instanceof Uint8Array) {
      if (value.length !== sizeBytes) {
        throw new CoralError({ code: "internal", message: `Cannot set constant "${name}": ${value.length} bytes for ${sizeBytes}` });
      }
      memory.set(value, offsetBytes);
    } else if (sizeBytes === 8) {
      memory.writeBigInt64LE(BigInt.asIntN(64, BigInt(value)), offsetBytes);
    } else {
      memory.writeIntLE(Number(BigInt.asIntN(sizeBytes * 8, BigInt(value))), offsetBytes, sizeBytes);
    }
  }
}

class LoadedObject implements BpfObject {
  readonly #libbpf: Libbpf;
  readonly #object: Pointer;
  readonly #programs: ReadonlyMap<string, Pointer>;
  readonly #maps = new Map<string, BpfMap>();
  readonly #rings = new Map<string, RingBuffer>();
  readonly #watches: RingWatch[] = [];
  readonly #links = new Set<BpfLink>();
  readonly #resources = new ResourceStack();

  constructor(libbpf: Libbpf, object: Pointer, programs: ReadonlyMap<string, Pointer>) {
    this.#libbpf = libbpf;
    this.#object = object;
    this.#programs = programs;
    // Last in, first out: programs are detached first, so that nothing writes while rings are unmapped and maps closed.
    this.#resources.defer(() => libbpf.closeObjectAsync(object));
    this.#resources.defer(() => {
      for (const ring of this.#rings.values()) ring[Symbol.dispose]();
    });
    this.#resources.defer(async () => {
      await Promise.all(this.#watches.map((watch) => watch[Symbol.asyncDispose]()));
    });
    this.#resources.defer(async () => {
      await Promise.all([...this.#links].map((link) => link[Symbol.asyncDispose]()));
    });
  }

  get programs(): string[] {
    return [...this.#programs.keys()];
  }

  map(name: string): BpfMap {
    let map = this.#maps.get(name);
    if (map === undefined) {
      map = this.#describe(findMap(this.#libbpf, this.#object, name));
      this.#maps.set(name, map);
    }
    return map;
  }

  maps(): BpfMap[] {
    const found: BpfMap[] = [];
    const libbpf = this.#libbpf;
    for (let map = libbpf.nextMap(this.#object, null); map !== null; map = libbpf.nextMap(this.#object, map))
      found.push(this.#describe(map));
    return found.filter(({ fd }) => fd >= 0);
  }

  #describe(map: Pointer): BpfMap {
    const libbpf = this.#libbpf;
    return createBpfMap(libbpf, {
      name: libbpf.mapName(map),
      fd: libbpf.mapFd(map),
      type: libbpf.mapType(map),
      keyBytes: libbpf.mapKeySize(map),
      valueBytes: libbpf.mapValueSize(map),
      maxEntries: libbpf.mapMaxEntries(map),
    });
  }

  ring(mapName: string): RingBuffer {
    let ring = this.#rings.get(mapName);
    if (ring === undefined) {
      ring = openRingBuffer(this.#libbpf, this.map(mapName));
      this.#rings.set(mapName, ring);
    }
    return ring;
  }

  watchRing(mapName: string, onWake: () => void): void {
    this.#watches.push(openRingWatch(this.#libbpf, this.map(mapName).fd, onWake));
  }

  attach(program: string): BpfLink {
    const pointer = this.#program(program);
    this.#libbpf.takeLog();
    const link = this.#libbpf.attach(pointer);
    if (link === null) throw refused(this.#libbpf, program, "attach", this.#libbpf.errno());
    let closing: Promise<unknown> | undefined;
    return this.#own({
      [Symbol.asyncDispose]: async () => {
        closing ??= this.#libbpf.destroyLinkAsync(link);
        await closing;
      },
    });
  }

  async attachUprobes(program: string, sites: UprobeSites): Promise<BpfLink> {
    return this.#own(await attachUprobeMulti(this.#libbpf, this.#libbpf.programFd(this.#program(program)), sites));
  }

  attachCpuClock(program: string, hz: number): { link: BpfLink; processors: number } {
    const attached = attachCpuClock(this.#libbpf, this.#program(program), hz);
    if ("errno" in attached) throw refused(this.#libbpf, program, "attach", attached.errno);
    return { link: this.#own(attached.link), processors: attached.processors };
  }

  /** Drops closed links: probes come and go with the processes of the host. */
  #own(link: BpfLink): BpfLink {
    const owned: BpfLink = {
      [Symbol.asyncDispose]: async () => {
        await link[Symbol.asyncDispose]();
        this.#links.delete(owned);
      },
    };
    this.#links.add(owned);
    return owned;
  }

  run(program: string, context?: Buffer): number {
    // union bpf_attr, test: prog_fd, retval, no data, then ctx_size_in and ctx_in.
    const attributes = Buffer.alloc(80);
    attributes.writeUInt32LE(this.#libbpf.programFd(this.#program(program)), 0);
    if (context !== undefined) {
      attributes.writeUInt32LE(context.length, 40);
      attributes.writeBigUInt64LE(this.#libbpf.addressOf(context), 48);
    }
    if (this.#libbpf.bpf(BPF_PROG_TEST_RUN, attributes) !== 0) throw refused(this.#libbpf, program, "run", this.#libbpf.errno());
    return attributes.readInt32LE(4);
  }

  stats(): ProgramStats[] {
    return [...this.#programs].map(([name, program]) => readProgramStats(this.#libbpf, name, this.#libbpf.programFd(program)));
  }

  enableStats(): Disposable | null {
    return enableProgramStats(this.#libbpf);
  }

  #program(name: string): Pointer {
    const program = this.#programs.get(name);
    if (program === undefined) throw new CoralError({ code: "not-found", message: `Cannot find BPF program "${name}": it is not loaded` });
    return program;
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.#resources[Symbol.asyncDispose]();
  }
}

function refused(libbpf: Libbpf, what: string, stage: "open" | "load" | "attach" | "run", errno: number): CoralError {
  const log = libbpf.takeLog();
  const isDenied = errno === EPERM || errno === EACCES;
  return new CoralError({
    code: isDenied ? "not-permitted" : "unsupported",
    message: `Cannot ${stage} "${what}": the kernel refuses with errno ${errno}`,
    details: { stage, errno, log },
  });
}
