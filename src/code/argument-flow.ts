/**
 * Tracks a function's arguments through its machine code along every path: which registers and stack slots are certain to hold which argument at an
 * instruction. Calling convention: System V x86-64, first six integer arguments in registers.
 */

import type { MachineInstruction, RegisterName } from "./disassembler.ts";
import type { MemoryPlace, ValuePlace } from "./instruction-effect.ts";

/** A value known to be in a register or stack slot. */
interface Value {
  /** Number of the argument that it is or derives from, or "stack" for an address in the stack. */
  root: number | "stack";
  /** Offset added to the argument; null: unknown. For a stack address: relative to the stack top at function entry. */
  offsetBytes: number | null;
  /** How many of its low bytes are present. */
  sizeBytes: number;
}

/** Keyed by register, or by stack offset relative to the top at function entry. */
type Held = Map<RegisterName | number, Value>;

/** The state before each reachable instruction, by instruction index. */
export interface ArgumentFlow {
  /** Of the function and of its out-of-line parts. */
  readonly instructions: readonly MachineInstruction[];
  /** Whether the register holds this argument or an address derived from it. */
  comesFrom(index: number, register: RegisterName, argument: number): boolean;
  /** Every register and stack slot that holds the low `sizeBytes` of the argument unchanged. Stack slots are offsets above the top at that instruction. */
  placesOf(index: number, argument: number, sizeBytes: number): (RegisterName | number)[];
}

const argumentRegisters = ["rdi", "rsi", "rdx", "rcx", "r8", "r9"] as const;
const lostInCalls = ["rax", "rcx", "rdx", "rsi", "rdi", "r8", "r9", "r10", "r11"] as const;
const wordBytes = 8;

export interface ArgumentFlowOptions {
  /** Direct calls that take this argument (or an address derived from it) as their first argument return it, as memcpy() does. */
  copied: number;
  /** An out-of-line part of the function, where compilers put cold code; `fromStartBytes` is inside it. Null: unknown. */
  partAt?: (fromStartBytes: number) => MachineInstruction[] | null;
}

/** Null if the code cannot be followed: it jumps through a table or register, or to an unknown part. */
export function followArguments(instructions: readonly MachineInstruction[], options: ArgumentFlowOptions): ArgumentFlow | null {
  return new Flow(options).follow(instructions);
}

const maxParts = 8;

class Flow implements ArgumentFlow {
  readonly instructions: MachineInstruction[] = [];
  readonly #options: ArgumentFlowOptions;
  readonly #indexOf = new Map<number, number>();
  readonly #before = new Map<number, Held>();
  readonly #waiting: number[] = [];
  #parts = 0;
  /** Stack slots whose address escapes: any callee may write to them. */
  readonly #shown = new Set<number>();

  constructor(options: ArgumentFlowOptions) {
    this.#options = options;
  }

  follow(instructions: readonly MachineInstruction[]): ArgumentFlow | null {
    this.#addPart(instructions);
    const start: Held = new Map(argumentRegisters.map((name, root) => [name, { root, offsetBytes: 0, sizeBytes: wordBytes }]));
    start.set("rsp", { root: "stack", offsetBytes: 0, sizeBytes: wordBytes });
    this.#reach(0, start);
    // Terminates: merging can only shrink what is held at an instruction.
    for (let index = this.#waiting.pop(); index !== undefined; index = this.#waiting.pop()) {
      if (!this.#step(index)) return null;
    }
    return this;
  }

  comesFrom(index: number, register: RegisterName, argument: number): boolean {
    const value = this.#before.get(index)?.get(register);
    return value?.root === argument && value.sizeBytes === wordBytes;
  }

  placesOf(index: number, argument: number, sizeBytes: number): (RegisterName | number)[] {
    const held = this.#before.get(index);
    const top = held === undefined ? null : stackOffset(held, "rsp");
    if (held === undefined || top === null) return [];
    return [...held].flatMap(([place, value]): (RegisterName | number)[] => {
      if (value.root !== argument || value.offsetBytes !== 0 || value.sizeBytes < sizeBytes) return [];
      if (typeof place !== "number") return [place];
      return place < top || this.#shown.has(place) ? [] : [place - top];
    });
  }

  /** False if the next instruction cannot be determined. */
  #step(index: number): boolean {
    const instruction = this.instructions[index] as MachineInstruction;
    const { kind, targetBytes } = instruction;
    const held: Held = new Map(this.#before.get(index));
    if (kind === "return") return true;
    if (kind === "indirect-jump") return isFrameGone(held);
    if (kind === "call") this.#call(held, instruction);
    else this.#change(held, instruction);
    if (kind === "branch" || kind === "jump") {
      // Without a frame this is a tail call.
      const target = targetBytes === null ? undefined : this.#find(targetBytes, isFrameGone(held));
      if (target === undefined && !isFrameGone(held)) return false;
      if (target !== undefined) this.#reach(target, held);
      if (kind === "jump") return true;
    }
    const next = this.#indexOf.get(instruction.offsetBytes + instruction.sizeBytes);
    // None: this was a call that does not return.
    if (next !== undefined) this.#reach(next, held);
    return true;
  }

  #find(fromStartBytes: number, isLeft: boolean): number | undefined {
    if (!this.#indexOf.has(fromStartBytes) && !isLeft && this.#parts < maxParts)
      this.#addPart(this.#options.partAt?.(fromStartBytes) ?? []);
    return this.#indexOf.get(fromStartBytes);
  }

  #addPart(instructions: readonly MachineInstruction[]): void {
    this.#parts++;
    for (const instruction of instructions) {
      if (this.#indexOf.has(instruction.offsetBytes)) continue;
      this.#indexOf.set(instruction.offsetBytes, this.instructions.length);
      this.instructions.push(instruction);
    }
  }

  /** Keeps only what holds on every path to the instruction. */
  #reach(index: number, arriving: Held): void {
    const known = this.#before.get(index);
    if (known === undefined) {
      this.#before.set(index, new Map(arriving));
      this.#waiting.push(index);
      return;
    }
    let isChanged = false;
    for (const [place, value] of known) {
      const both = common(value, arriving.get(place));
      if (both === value) continue;
      isChanged = true;
      if (both === null) known.delete(place);
      else known.set(place, both);
    }
    if (isChanged) this.#waiting.push(index);
  }

  #call(held: Held, { targetBytes }: MachineInstruction): void {
    const first = held.get("rdi");
    for (const register of lostInCalls) held.delete(register);
    if (targetBytes !== null && first?.root === this.#options.copied) held.set("rax", { ...first, offsetBytes: null });
  }

  #change(held: Held, instruction: MachineInstruction): void {
    const { effect, stackBytes, writes } = instruction;
    const copied = effect.copy === null ? null : valueAt(held, effect.copy.from, effect.copy.sizeBytes);
    const sum = effect.sum === null ? undefined : held.get(effect.sum.of);
    const target = effect.copy === null ? null : placeOf(held, effect.copy.to);
    const top = stackOffset(held, "rsp");
    for (const store of effect.stores) forgetStored(held, store);
    for (const register of writes) held.delete(register);
    if (copied !== null && target !== null) held.set(target, copied);
    if (effect.sum !== null && sum !== undefined && sum.sizeBytes === wordBytes) this.#add(held, effect.sum, sum);
    const moved = stackBytes === null || stackBytes === 0 || top === null ? stackOffset(held, "rsp") : top - stackBytes;
    if (moved !== null && moved !== top) moveTop(held, moved);
  }

  #add(held: Held, { to, addedBytes }: { to: RegisterName; addedBytes: number | null }, value: Value): void {
    const offsetBytes = addedBytes === null || value.offsetBytes === null ? null : value.offsetBytes + addedBytes;
    if (value.root === "stack" && offsetBytes === null) return;
    if (value.root === "stack" && offsetBytes !== null && to !== "rsp" && to !== "rbp") this.#shown.add(offsetBytes);
    held.set(to, { ...value, offsetBytes });
  }
}

function stackOffset(held: Held, register: RegisterName): number | null {
  const value = held.get(register);
  return value?.root === "stack" ? value.offsetBytes : null;
}

function isFrameGone(held: Held): boolean {
  return stackOffset(held, "rsp") === 0;
}

/** Null for memory outside the stack. */
function placeOf(held: Held, place: ValuePlace): RegisterName | number | null {
  if ("register" in place) return place.register;
  const base = stackOffset(held, place.base);
  return base === null ? null : base + place.displacementBytes;
}

function valueAt(held: Held, from: ValuePlace, sizeBytes: number): Value | null {
  const place = placeOf(held, from);
  const value = place === null ? undefined : held.get(place);
  if (value === undefined) return null;
  // Part of an address is not an address.
  if (value.root === "stack" && sizeBytes < wordBytes) return null;
  return { ...value, sizeBytes: Math.min(value.sizeBytes, sizeBytes) };
}

/** A pointer into other memory never aliases a slot where the compiler keeps a value. */
function forgetStored(held: Held, store: MemoryPlace & { sizeBytes: number; isIndexed: boolean }): void {
  const start = placeOf(held, { base: store.base, displacementBytes: store.displacementBytes });
  if (typeof start !== "number") return;
  for (const [place, { sizeBytes }] of held) {
    if (typeof place === "number" && (store.isIndexed || (place < start + store.sizeBytes && start < place + sizeBytes)))
      held.delete(place);
  }
}

/** Memory below the top belongs to the next callee. */
function moveTop(held: Held, offsetBytes: number): void {
  held.set("rsp", { root: "stack", offsetBytes, sizeBytes: wordBytes });
  for (const place of held.keys()) if (typeof place === "number" && place < offsetBytes) held.delete(place);
}

/** The first value if the second does not contradict it; null when they differ. */
function common(value: Value, other: Value | undefined): Value | null {
  if (other === undefined || other.root !== value.root) return null;
  const offsetBytes = other.offsetBytes === value.offsetBytes ? value.offsetBytes : null;
  if (value.root === "stack" && offsetBytes === null) return null;
  const sizeBytes = Math.min(value.sizeBytes, other.sizeBytes);
  return offsetBytes === value.offsetBytes && sizeBytes === value.sizeBytes ? value : { ...value, offsetBytes, sizeBytes };
}
