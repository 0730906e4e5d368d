/** Walks a copied stack: by the unwind tables of the code if it has any, else by frame pointers, which JIT compilers keep. */

import { evaluateFrameExpression, type FrameRow, registerNumbers, type ScriptFunction } from "../../code/index.ts";
import { dwarfRegisters } from "../kernel/sample-record.ts";
import type { CodePlace } from "./process-code.ts";

/** Why a walk ended. `bottom`: it reached the start of the program or thread. */
export type WalkEnd = "bottom" | "truncated" | "no-code" | "no-rule" | "loop";

export interface UserFrame {
  /** In the address space of the process. */
  address: number;
  place: CodePlace | null;
  /** Null for native code. */
  script: ScriptFunction | null;
}

export interface Walk {
  /** Innermost first. */
  frames: UserFrame[];
  end: WalkEnd;
}

export interface StackMemory {
  stack: DataView;
  stackAt: number;
}

const maxFrames = 256;
const { rbp, rsp, returnAddress } = registerNumbers;
/** Callee-saved registers, which a later row may refer to. */
const preserved = [registerNumbers.rbx, rbp, registerNumbers.r12, registerNumbers.r13, registerNumbers.r14, registerNumbers.r15];
const registers = new Float64Array(dwarfRegisters);
const next = new Float64Array(dwarfRegisters);

/** `find` returns the code at an address. `initial`: registers by DWARF number. */
export function walkStack(initial: Float64Array, memory: StackMemory, find: (address: number) => CodePlace | null): Walk {
  const { stack, stackAt } = memory;
  const read = (address: number): number => {
    const at = address - stackAt;
    if (!(at >= 0 && at + 8 <= stack.byteLength)) return Number.NaN;
    return stack.getUint32(at, true) + stack.getUint32(at + 4, true) * 2 ** 32;
  };
  registers.set(initial);
  const frames: UserFrame[] = [];
  // A return address is after its call, perhaps already in the next function. The first address, and one interrupted by a signal, are
  // exact.
  let isExact = true;
  while (frames.length < maxFrames) {
    const counter = registers[returnAddress] ?? Number.NaN;
    if (counter === 0) return { frames, end: "bottom" };
    if (Number.isNaN(counter)) return { frames, end: "truncated" };
    const address = isExact ? counter : counter - 1;
    const place = find(address);
    if (place === null) return { frames, end: "no-code" };
    frames.push({ address, place, script: null });
    const found = place.file?.frameAt(place.address) ?? null;
    next.set(registers);
    const end = found === null ? stepByPointer(read) : stepByTable(rowAt(found.rows, place.address), read);
    if (end !== null) return { frames, end };
    isExact = found?.isSignal === true;
    if (!((next[rsp] ?? 0) > (registers[rsp] ?? 0)) && !isExact) return { frames, end: "loop" };
    registers.set(next);
  }
  return { frames, end: "loop" };
}

/** The last row that starts at or before the address. */
function rowAt(rows: readonly FrameRow[], address: number): FrameRow | undefined {
  let [low, high] = [0, rows.length];
  while (low < high) {
    const middle = (low + high) >>> 1;
    if ((rows[middle]?.pc ?? 0) <= address) low = middle + 1;
    else high = middle;
  }
  return rows[low - 1];
}

function stepByTable(row: FrameRow | undefined, read: (address: number) => number): WalkEnd | null {
  if (row === undefined) return "no-rule";
  const ruleOfReturn = row.rules.get(returnAddress);
  if (ruleOfReturn === "undefined") return "bottom";
  const frame =
    row.expression === null
      ? (registers[row.register] ?? Number.NaN) + row.offset
      : evaluateFrameExpression(row.expression, registers, read);
  if (Number.isNaN(frame)) return "truncated";
  const valueOf = (register: number): number | undefined => {
    const rule = row.rules.get(register);
    if (rule === undefined) return undefined;
    if (rule === "undefined") return Number.NaN;
    if (typeof rule === "number") return read(frame + rule);
    const value = evaluateFrameExpression(rule.expression, registers, read, frame);
    return rule.isValue ? value : read(value);
  };
  for (const register of preserved) {
    const value = valueOf(register);
    if (value !== undefined) next[register] = value;
  }
  next[returnAddress] = valueOf(returnAddress) ?? read(frame - 8);
  next[rsp] = valueOf(rsp) ?? frame;
  return null;
}

function stepByPointer(read: (address: number) => number): WalkEnd | null {
  const pointer = registers[rbp] ?? Number.NaN;
  if (pointer === 0) return "bottom";
  if (Number.isNaN(pointer) || pointer < (registers[rsp] ?? 0)) return "no-rule";
  next[returnAddress] = read(pointer + 8);
  next[rbp] = read(pointer);
  next[rsp] = pointer + 16;
  return null;
}
