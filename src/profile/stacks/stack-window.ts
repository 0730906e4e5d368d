/** Samples of a window, counted by stack. What was copied of a stack is walked at once and dropped; functions are named when the window ends. */

import type { KernelFunctions } from "../../host/index.ts";
import type { FrameKind, ProfileFrame, ProfileStack } from "../core/messages.ts";
import type { CpuSample } from "../kernel/sample-record.ts";
import type { CodeFile } from "./code-file.ts";
import type { CodePlace, ProcessCode, ProcessCodes } from "./process-code.ts";
import { type UserFrame, type Walk, walkStack } from "./unwind.ts";

interface RawStack {
  sample: Pick<CpuSample, "pid" | "startedNs" | "processName" | "threadName" | "isKernelThread">;
  build: string | null;
  isGo: boolean;
  isWhole: boolean;
  /** Innermost first. */
  kernel: readonly number[];
  user: readonly UserFrame[];
  samples: number;
}

export interface StackWindowOptions {
  codes: ProcessCodes;
  /** Read when the first window with kernel frames ends; null when the kernel hides them. */
  kernelFunctions: () => KernelFunctions | null;
  maxStacks: number;
  nowMs: () => number;
}

/**
 * A file's symbols are read when so many frames were in it, and when a window has read less than so much: a build server starts hundreds of
 * programs a minute. Until then a function is shown as its place in the file.
 */
const minHits = 3;
const maxReadBytes = 8 * 1024 * 1024;
/** Where the stack of a Go program starts. */
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
        samples: 1,
      });
    }
  }

  /** The stacks of the window, named, and the number of samples that had no room; starts the next one. */
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

/** Numbers the frames of a window. */
class FrameTable {
  readonly frames: ProfileFrame[] = [];
  readonly #numbers = new Map<string, number>();
  readonly #ofPlaces = new Map<CodePlace | null, number>();
  readonly #ofAddresses = new Map<number, number>();
  readonly #functions: KernelFunctions | null;

  constructor(functions: KernelFunctions | null) {
    this.#functions = functions;
  }

  user({ place }: UserFrame): number {
    let number = this.#ofPlaces.get(place);
    if (number === undefined) {
      number = this.#number(userFrame(place));
      this.#ofPlaces.set(place, number);
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

/** Go keeps frame pointers and changes stacks, which a copy of one of them does not show. */
function walkUser(sample: CpuSample, code: ProcessCode, nowMs: number): Walk {
  const find = (address: number) => code.find(address, nowMs);
  if (code.isGo || sample.registers === null) {
    // The first address is where the program is, all others are return addresses.
    const frames = sample.user.map((address, index) => ({ address, place: find(index === 0 ? address : address - 1) }));
    return { frames, end: "no-rule" };
  }
  return walkStack(sample.registers, sample, find);
}

/** By addresses: functions are not known yet. */
function keyOf(sample: CpuSample, { frames, end }: Walk): string {
  return `${sample.pid} ${sample.startedNs} ${sample.threadName} ${end} ${sample.kernel.join(",")} ${frames.map(({ address }) => address).join(",")}`;
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
  // Most frames per byte first; the last file may exceed the limit, so that a large one has its turn.
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
  const frames: number[] = [];
  for (const frame of raw.user.toReversed()) frames.push(table.user(frame));
  for (const address of raw.kernel.toReversed()) frames.push(table.kernel(address));
  const isWhole = raw.isWhole || (raw.isGo && goStarts.has(table.name(frames[0])));
  return { ...raw.sample, build: raw.build, frames, isWhole, samples: raw.samples };
}

function userFrame(place: CodePlace | null): ProfileFrame {
  if (place === null) return { name: "[unknown]", module: "", kind: "unknown" };
  const { file, mapping, address } = place;
  // Code that a program made at run time, or a file that may not be opened.
  if (file === null) return { name: mapping.file === null ? "[jit]" : "[unreadable]", module: mapping.name, kind: "unknown" };
  const kind: FrameKind = file.isGo ? "go" : "native";
  return { name: file.nameOf(address), module: file.module, kind };
}
