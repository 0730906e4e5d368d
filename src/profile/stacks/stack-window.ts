/** Counts the samples of a window by stack. Copied stacks are walked at once and dropped; functions are named at the end of the window. */

import { type ScriptFunction, unnamedFunction } from "../../code/index.ts";
import type { KernelFunctions } from "../../host/index.ts";
import type { FrameKind, ProfileFrame, ProfileStack } from "../core/messages.ts";
import type { CpuSample } from "../kernel/sample-record.ts";
import type { CodeFile } from "./code-file.ts";
import type { CodePlace, ProcessCode, ProcessCodes } from "./process-code.ts";
import { joinPythonFrames, joinV8Frames, shortFile, shownNativeFrame } from "./script-frames.ts";
import { type UserFrame, type Walk, walkStack } from "./unwind.ts";

interface RawStack {
  sample: Pick<CpuSample, "pid" | "startedNs" | "processName" | "threadName" | "isKernelThread">;
  build: string | null;
  isGo: boolean;
  isWhole: boolean;
  /** Innermost first. */
  kernel: readonly number[];
  user: readonly UserFrame[];
  python: readonly ScriptFunction[];
  samples: number;
}

export interface StackWindowOptions {
  codes: ProcessCodes;
  /** Read when the first window with kernel frames ends; null if the kernel hides them. */
  kernelFunctions: () => KernelFunctions | null;
  maxStacks: number;
  nowMs: () => number;
}

/**
 * A file's symbols are read after this many frames in it, within a limit of bytes per window: a build server starts hundreds of programs a
 * minute. Until then a function is shown as an offset in its file.
 */
const minHits = 3;
const maxReadBytes = 8 * 1024 * 1024;
/** Where a thread of Node starts, if its stack is deeper than what is copied of it. */
const nodeStarts = /^(_start|main|__libc_start\w*|start_thread|node::Start\b.*|.*::StartThread\(.*)$/;
/** Entry points of Go stacks. */
const goStarts: ReadonlySet<string> = new Set(["runtime.goexit", "runtime.mstart", "runtime.rt0_go", "runtime.mcall"]);

export class StackWindow {
  readonly #options: StackWindowOptions;
  #stacks = new Map<string, RawStack>();
  #full = 0;

  constructor(options: StackWindowOptions) {
    this.#options = options;
  }

  add(sample: CpuSample): void {
    const nowMs = this.#options.nowMs();
    const code = sample.isKernelThread ? null : this.#options.codes.of(sample.pid, sample.startedNs, nowMs);
    const walk: Walk = code === null ? { frames: [], end: "bottom" } : walkUser(sample, code, nowMs);
    const key = keyOf(sample, walk);
    const known = this.#stacks.get(key);
    if (known !== undefined) known.samples++;
    else if (this.#stacks.size >= this.#options.maxStacks) this.#full++;
    else {
      const { pid, startedNs, processName, threadName, isKernelThread, kernel } = sample;
      this.#stacks.set(key, {
        sample: { pid, startedNs, processName, threadName, isKernelThread },
        build: code?.build ?? null,
        isGo: code?.isGo === true,
        isWhole: walk.end === "bottom",
        kernel: [...kernel],
        user: walk.frames,
        python: code === null ? [] : pythonFunctions(sample, code, nowMs),
        samples: 1,
      });
    }
  }

  /** Returns the named stacks of the window and the number of samples beyond the limit, and starts the next window. */
  take(): { frames: ProfileFrame[]; stacks: ProfileStack[]; full: number } {
    const raw = [...this.#stacks.values()];
    const full = this.#full;
    this.#stacks = new Map();
    this.#full = 0;
    nameFiles(raw);
    const functions = raw.some(({ kernel }) => kernel.length > 0) ? this.#options.kernelFunctions() : null;
    const table = new FrameTable(functions);
    const merged = new Map<string, ProfileStack>();
    for (const one of raw) {
      const stack = namedStack(one, table);
      const { pid, startedNs, threadName, frames, isWhole } = stack;
      const key = `${pid} ${startedNs} ${isWhole} ${frames.join(",")} ${threadName}`;
      const known = merged.get(key);
      if (known === undefined) merged.set(key, stack);
      else known.samples += stack.samples;
    }
    this.#options.codes.trim(this.#options.nowMs());
    return { frames: table.frames, stacks: [...merged.values()], full };
  }
}

/** Assigns numbers to the frames of a window. */
class FrameTable {
  readonly frames: ProfileFrame[] = [];
  readonly #numbers = new Map<string, number>();
  readonly #ofPlaces = new Map<CodePlace | null, number | null>();
  readonly #ofScripts = new Map<ScriptFunction, number>();
  readonly #ofAddresses = new Map<number, number>();
  readonly #functions: KernelFunctions | null;

  constructor(functions: KernelFunctions | null) {
    this.#functions = functions;
  }

  /** Null for a frame that is not shown. */
  user({ place, script }: UserFrame): number | null {
    if (script !== null) return this.script(script, "node");
    let number = this.#ofPlaces.get(place);
    if (number === undefined) {
      const shown = shownNativeFrame(userFrame(place));
      number = shown === null ? null : this.#number(shown);
      this.#ofPlaces.set(place, number);
    }
    return number;
  }

  script(script: ScriptFunction, kind: "node" | "python"): number {
    let number = this.#ofScripts.get(script);
    if (number === undefined) {
      const name = script.name === unnamedFunction && script.line !== null ? `(anonymous:${script.line})` : script.name;
      number = this.#number({ name, module: shortFile(script.file), kind });
      this.#ofScripts.set(script, number);
    }
    return number;
  }

  kernel(address: number): number {
    let number = this.#ofAddresses.get(address);
    if (number === undefined) {
      number = this.#number({ name: this.#functions?.nameOf(address) ?? "[kernel]", module: "", kind: "kernel" });
      this.#ofAddresses.set(address, number);
    }
    return number;
  }

  name(number: number | undefined): string {
    return (number === undefined ? undefined : this.frames[number]?.name) ?? "";
  }

  #number(frame: ProfileFrame): number {
    const key = `${frame.kind} ${frame.module}\n${frame.name}`;
    let number = this.#numbers.get(key);
    if (number === undefined) {
      number = this.frames.push(frame) - 1;
      this.#numbers.set(key, number);
    }
    return number;
  }
}

/** Go keeps frame pointers and switches stacks, which a copy of one stack does not show. */
function walkUser(sample: CpuSample, code: ProcessCode, nowMs: number): Walk {
  const find = (address: number) => code.find(address, nowMs);
  if (code.isGo || sample.registers === null) {
    // The first address is the instruction pointer; all others are return addresses.
    const frames = sample.user.map((address, index) => ({ address, place: find(index === 0 ? address : address - 1), script: null }));
    return { frames, end: "no-rule" };
  }
  const walk = walkStack(sample.registers, sample, find);
  return code.runtime?.kind === "node" ? joinV8Frames(walk, sample.runtime, code.runtime, find, nowMs) : walk;
}

/** Owner of the trampolines with which CPython 3.12 and later enter Python from C. */
const ownedByC = 3;

function pythonFunctions({ runtime: frames }: CpuSample, { runtime }: ProcessCode, nowMs: number): ScriptFunction[] {
  if (runtime?.kind !== "python") return [];
  return frames.flatMap(({ address: owner, pointer }) => (owner === ownedByC ? [] : (runtime.find(pointer, nowMs) ?? [])));
}

/** By address: function names are not known yet. */
function keyOf(sample: CpuSample, { frames, end }: Walk): string {
  return `${sample.pid} ${sample.startedNs} ${sample.threadName} ${end} ${sample.kernel.join(",")} ${frames.map(({ address }) => address).join(",")} ${sample.runtime.map(({ pointer }) => pointer).join(",")}`;
}

function nameFiles(stacks: readonly RawStack[]): void {
  const wanted = new Map<CodeFile, Set<number>>();
  for (const { user, samples } of stacks) {
    for (const { place } of user) {
      const file = place?.file ?? null;
      if (place === null || file === null) continue;
      file.hits += samples;
      const addresses = wanted.get(file);
      if (addresses === undefined) wanted.set(file, new Set([place.address]));
      else addresses.add(place.address);
    }
  }
  // Files with most frames per byte first. The last one may exceed the limit, so that large files are read eventually.
  const worth = (file: CodeFile): number => file.hits / (1 + file.unreadBytes);
  let readBytes = 0;
  for (const [file, addresses] of [...wanted].sort(([a], [b]) => worth(b) - worth(a))) {
    const { unreadBytes } = file;
    if (unreadBytes > 0 && (file.hits < minHits || readBytes >= maxReadBytes)) continue;
    file.name([...addresses]);
    readBytes += unreadBytes - file.unreadBytes;
  }
}

function namedStack(raw: RawStack, table: FrameTable): ProfileStack {
  const native = raw.user.toReversed().flatMap((frame) => table.user(frame) ?? []);
  const python = raw.python.toReversed().map((script) => table.script(script, "python"));
  const frames = python.length === 0 ? native : joinPythonFrames(native, python, (frame) => table.name(frame));
  for (const address of raw.kernel.toReversed()) frames.push(table.kernel(address));
  const first = table.name(frames[0]);
  const isWhole =
    raw.isWhole || (raw.isGo ? goStarts.has(first) : raw.user.some(({ script }) => script !== null) && nodeStarts.test(first));
  return { ...raw.sample, build: raw.build, frames, isWhole, samples: raw.samples };
}

function userFrame(place: CodePlace | null): ProfileFrame {
  if (place === null) return { name: "[unknown]", module: "", kind: "unknown" };
  const { file, mapping, address } = place;
  // Code generated at run time, or a file that cannot be opened.
  if (file === null) return { name: mapping.file === null ? "[jit]" : "[unreadable]", module: mapping.name, kind: "unknown" };
  const kind: FrameKind = file.isGo ? "go" : "native";
  return { name: file.nameOf(address), module: file.module, kind };
}
