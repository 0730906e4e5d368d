/**
 * Follows the arguments of a function through its machine code, along every path: which registers and stack slots are certain to
 * hold which argument at an instruction. C calling convention of x86-64 (System V): arguments in registers, the first six.
 */

import type { MachineInstruction, RegisterName } from "./disassembler.ts";
import type { MemoryPlace, ValuePlace } from "./instruction-effect.ts";

/** A value known to be in a register or stack slot. */
interface Value {
  /** Number of the argument that it is, or comes from; or an address in the stack. */
  root: number | "stack";
  /** What was added to it; null: anything. Of the stack: from where its top was when the function began. */
  offsetBytes: number | null;
  /** How many of its low bytes are there. */
  sizeBytes: number;
}

/** By register, or by the place in the stack, from where its top was when the function began. */
type Held = Map<RegisterName | number, Value>;

/** Before each instruction that the function can get to, by its index. */
export interface ArgumentFlow {
  /** Those of the function, and of its parts elsewhere. */
  readonly instructions: readonly MachineInstruction[];
  /** Whether the register holds this argument, or it with something added. */
  comesFrom(index: number, register: RegisterName, argument: number): boolean;
  /** All places with so many low bytes of the argument, unchanged. Stack: bytes above its top at that instruction. */
  placesOf(index: number, argument: number, sizeBytes: number): (RegisterName | number)[];
}

const argumentRegisters = ["rdi", "rsi", "rdx", "rcx", "r8", "r9"] as const;
const lostInCalls = ["rax", "rcx", "rdx", "rsi", "rdi", "r8", "r9", "r10", "r11"] as const;
const wordBytes = 8;

export interface ArgumentFlowOptions {
  /** Direct calls that are given this argument of the function, or a place behind it, as their first one return it, as memcpy() does. */
  copied: number;
  /** A part of the function that lies elsewhere, as compilers put what is rare; `fromStartBytes` is in it. Null: none is known. */
  partAt?: (fromStartBytes: number) => MachineInstruction[] | null;
}

/** Null if it cannot be followed: it jumps by a table or register, or to an unknown part. */
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
  /** Of places in the stack whose address is handed out: any callee may write there. */
  readonly #shown = new Set<number>();

  constructor(options: ArgumentFlowOptions) {
    this.#options = options;
  }

  follow(instructions: readonly MachineInstruction[]): ArgumentFlow | null {
    this.#addPart(instructions);
    const start: Held = new Map(argumentRegisters.map((name, root) => [name, { root, offsetBytes: 0, sizeBytes: wordBytes }]));
    start.set("rsp", { root: "stack", offsetBytes: 0, sizeBytes: wordBytes });
    this.#reach(0, start);
    // Ends: what is held at an instruction only ever becomes less.
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
      // Without a frame it goes to another function, in place of a return.
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

  /** Keeps what holds on every path to the instruction. */
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

/** Null when it is memory elsewhere than in the stack. */
function placeOf(held: Held, place: ValuePlace): RegisterName | number | null {
  if ("register" in place) return place.register;
  const base = stackOffset(held, place.base);
  return base === null ? null : base + place.displacementBytes;
}

function valueAt(held: Held, from: ValuePlace, sizeBytes: number): Value | null {
  const place = placeOf(held, from);
  const value = place === null ? undefined : held.get(place);
  if (value === undefined) return null;
  // A part of an address is none.
  if (value.root === "stack" && sizeBytes < wordBytes) return null;
  return { ...value, sizeBytes: Math.min(value.sizeBytes, sizeBytes) };
}

/** A pointer to elsewhere never leads to a place where the compiler keeps a value for itself. */
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

/** The first one itself when the other adds nothing against it; null when they have nothing in common. */
function common(value: Value, other: Value | undefined): Value | null {
  if (other === undefined || other.root !== value.root) return null;
  const offsetBytes = other.offsetBytes === value.offsetBytes ? value.offsetBytes : null;
  if (value.root === "stack" && offsetBytes === null) return null;
  const sizeBytes = Math.min(value.sizeBytes, other.sizeBytes);
  return offsetBytes === value.offsetBytes && sizeBytes === value.sizeBytes ? value : { ...value, offsetBytes, sizeBytes };
}
