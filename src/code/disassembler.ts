/** Decodes x86-64 machine code for choosing probe sites. The library loads on first use and then holds 10 to 20 MB, so only short-lived processes use it. */

import { createRequire } from "node:module";
import { CoralError } from "../base/errors.ts";
import { effectOf, type InstructionEffect } from "./instruction-effect.ts";

export type Iced = typeof import("iced-x86");

const registerNames = [
  "rax",
  "rbx",
  "rcx",
  "rdx",
  "rsi",
  "rdi",
  "rsp",
  "rbp",
  "r8",
  "r9",
  "r10",
  "r11",
  "r12",
  "r13",
  "r14",
  "r15",
] as const;
export type RegisterName = (typeof registerNames)[number];

/** How the kernel runs the instruction under a probe, and where control goes next. */
export type InstructionKind = "nop" | "nop5" | "push" | "branch" | "jump" | "call" | "return" | "indirect-jump" | "other";

export interface MachineInstruction {
  /** From the start of the function. */
  offsetBytes: number;
  sizeBytes: number;
  kind: InstructionKind;
  /** Whether the kernel emulates it instead of single-stepping a copy: see `probe-site.ts`. */
  isEmulated: boolean;
  /** The condition of a branch, 0 to 15 as in its opcode: 6 is "below or equal". */
  condition: number | null;
  /** Target of a direct branch, jump or call, from the start of the function. */
  targetBytes: number | null;
  /** General registers that it writes; for a call, not those that the callee writes. */
  writes: ReadonlySet<RegisterName>;
  /** How much it grows the stack, negative when it shrinks it; null when it sets the stack pointer otherwise. 0 for calls. */
  stackBytes: number | null;
  /** A register that it saves on the stack, and at which offset above the top. */
  spill: { register: RegisterName; aboveTopBytes: number } | null;
  effect: InstructionEffect;
}

const maxInstructions = 20_000;
let loaded: { iced: Iced; registers: ReadonlyMap<number, RegisterName> } | undefined;

function load(): NonNullable<typeof loaded> {
  if (loaded !== undefined) return loaded;
  const require = createRequire(import.meta.url);
  try {
    const iced = require("iced-x86") as Iced;
    const { Register } = iced;
    const numbers = [
      Register.RAX,
      Register.RBX,
      Register.RCX,
      Register.RDX,
      Register.RSI,
      Register.RDI,
      Register.RSP,
      Register.RBP,
      Register.R8,
      Register.R9,
      Register.R10,
      Register.R11,
      Register.R12,
      Register.R13,
      Register.R14,
      Register.R15,
    ];
    const registers = new Map(registerNames.map((name, index) => [numbers[index] as number, name]));
    loaded = { iced, registers };
    return loaded;
  } catch (error) {
    throw new CoralError({
      code: "unsupported",
      message: 'Cannot read machine code: the library "iced-x86" does not load here',
      cause: error,
    });
  }
}

/**
 * The instructions of one function, in order; one that is truncated at the end is dropped. A part that lies elsewhere begins `fromStartBytes` after the
 * function. Throws `invalid` if the bytes are not instructions.
 */
export function decodeFunction(code: Buffer, fromStartBytes = 0): MachineInstruction[] {
  const { iced, registers } = load();
  const decoder = new iced.Decoder(64, code, iced.DecoderOptions.None);
  decoder.ip = BigInt.asUintN(64, BigInt(fromStartBytes));
  const factory = new iced.InstructionInfoFactory();
  const instruction = new iced.Instruction();
  try {
    const instructions: MachineInstruction[] = [];
    while (decoder.canDecode && instructions.length < maxInstructions) {
      const offsetBytes = decoder.position;
      decoder.decodeOut(instruction);
      if (instruction.isInvalid) {
        if (decoder.lastError === iced.DecoderError.NoMoreBytes) break;
        throw undecodable(offsetBytes);
      }
      const bytes = code.subarray(offsetBytes, offsetBytes + instruction.length);
      instructions.push(describe(iced, registers, factory, instruction, bytes, fromStartBytes + offsetBytes));
    }
    return instructions;
  } finally {
    instruction.free();
    factory.free();
    decoder.free();
  }
}

function undecodable(offsetBytes: number): CoralError {
  return new CoralError({ code: "invalid", message: `Cannot read machine code: no instruction at byte ${offsetBytes}` });
}

function describe(
  iced: Iced,
  registers: ReadonlyMap<number, RegisterName>,
  factory: InstanceType<Iced["InstructionInfoFactory"]>,
  instruction: InstanceType<Iced["Instruction"]>,
  bytes: Buffer,
  offsetBytes: number,
): MachineInstruction {
  const writes = new Set<RegisterName>();
  const info = factory.info(instruction);
  for (const used of info.usedRegisters() as { register: number; access: number; free(): void }[]) {
    const isWrite =
      used.access !== iced.OpAccess.Read && used.access !== iced.OpAccess.CondRead && used.access !== iced.OpAccess.NoMemAccess;
    const name = isWrite ? registers.get(iced.RegisterExt.fullRegister(used.register)) : undefined;
    if (name !== undefined) writes.add(name);
    used.free();
  }
  const usedMemory = info.usedMemory() as InstanceType<Iced["UsedMemory"]>[];
  const effect = effectOf(iced, registers, instruction, usedMemory);
  for (const used of usedMemory) used.free();
  info.free();
  const kind = kindOf(iced, instruction, bytes);
  const isDirect = kind === "branch" || kind === "jump" || (kind === "call" && bytes.includes(0xe8) && instruction.isCallNear);
  return {
    offsetBytes,
    sizeBytes: bytes.length,
    kind,
    isEmulated: isEmulated(bytes),
    condition: kind === "branch" ? conditionOf(bytes) : null,
    // Addresses count from 0, the start of the function, so a target before it wraps around.
    targetBytes: isDirect ? Number(BigInt.asIntN(64, instruction.nearBranchTarget)) : null,
    writes,
    stackBytes: stackBytesOf(iced, instruction, kind, writes),
    spill: spillOf(iced, registers, instruction),
    effect,
  };
}

function stackBytesOf(
  iced: Iced,
  instruction: InstanceType<Iced["Instruction"]>,
  kind: InstructionKind,
  writes: ReadonlySet<RegisterName>,
): number | null {
  if (!writes.has("rsp") || kind === "call" || kind === "return") return 0;
  const { mnemonic } = instruction;
  if (mnemonic === iced.Mnemonic.Push || mnemonic === iced.Mnemonic.Pop) return -instruction.stackPointerIncrement;
  const isByNumber = instruction.op0Register === iced.Register.RSP && isImmediate(iced, instruction.op1Kind);
  if (!isByNumber || (mnemonic !== iced.Mnemonic.Sub && mnemonic !== iced.Mnemonic.Add)) return null;
  const bytes = Number(BigInt.asIntN(64, instruction.immediate(1)));
  return mnemonic === iced.Mnemonic.Sub ? bytes : -bytes;
}

function isImmediate({ OpKind }: Iced, kind: number): boolean {
  return kind === OpKind.Immediate8to64 || kind === OpKind.Immediate32to64 || kind === OpKind.Immediate8 || kind === OpKind.Immediate32;
}

function spillOf(
  iced: Iced,
  registers: ReadonlyMap<number, RegisterName>,
  instruction: InstanceType<Iced["Instruction"]>,
): MachineInstruction["spill"] {
  const { Mnemonic, OpKind, Register } = iced;
  if (instruction.mnemonic !== Mnemonic.Mov || instruction.op0Kind !== OpKind.Memory || instruction.op1Kind !== OpKind.Register)
    return null;
  if (instruction.memoryBase !== Register.RSP || instruction.memoryIndex !== Register.None) return null;
  // Whole registers only: their parts have other numbers.
  const register = registers.get(instruction.op1Register);
  return register === undefined ? null : { register, aboveTopBytes: Number(BigInt.asIntN(64, instruction.memoryDisplacement)) };
}

function kindOf(iced: Iced, instruction: InstanceType<Iced["Instruction"]>, bytes: Buffer): InstructionKind {
  if (bytes.equals(nop5)) return "nop5";
  if (instruction.mnemonic === iced.Mnemonic.Nop) return "nop";
  if (instruction.mnemonic === iced.Mnemonic.Push) return "push";
  switch (instruction.flowControl) {
    case iced.FlowControl.ConditionalBranch:
      return "branch";
    case iced.FlowControl.UnconditionalBranch:
      return "jump";
    case iced.FlowControl.IndirectBranch:
      return "indirect-jump";
    case iced.FlowControl.Call:
    case iced.FlowControl.IndirectCall:
      return "call";
    case iced.FlowControl.Return:
      return "return";
    default:
      return "other";
  }
}

const nop5 = Buffer.from([0x0f, 0x1f, 0x44, 0x00, 0x00]);

/**
 * As `arch/x86/kernel/uprobes.c` decides: nop, relative jumps, branches and calls without an operand-size prefix, and a push of one register. The
 * five-byte nop is replaced by a call since Linux 6.18 and stepped through before, as are other long nops.
 */
function isEmulated(bytes: Buffer): boolean {
  const [first = 0, second = 0] = bytes;
  if (first === 0x90 || (first === 0x66 && second === 0x90) || bytes.equals(nop5)) return true;
  if (first === 0xeb || first === 0xe9 || first === 0xe8 || (first & 0xf0) === 0x70) return true;
  if (first === 0x0f && (second & 0xf0) === 0x80) return true;
  if (bytes.length === 1) return (first & 0xf8) === 0x50;
  return bytes.length === 2 && first === 0x41 && (second & 0xf8) === 0x50;
}

function conditionOf(bytes: Buffer): number | null {
  const [first = 0, second = 0] = bytes;
  if ((first & 0xf0) === 0x70) return first & 15;
  return first === 0x0f && (second & 0xf0) === 0x80 ? second & 15 : null;
}
