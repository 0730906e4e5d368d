/** What an instruction does to values: copies, adds to or overwrites them. Covers what following a function's arguments needs, no more. */

import type { Iced, RegisterName } from "./disassembler.ts";

/** Memory addressed by one register. */
export interface MemoryPlace {
  base: RegisterName;
  displacementBytes: number;
}

export type ValuePlace = { register: RegisterName } | MemoryPlace;

export interface InstructionEffect {
  /** Copies the low bytes unchanged; the rest of the target is lost. */
  copy: { from: ValuePlace; to: ValuePlace; sizeBytes: number } | null;
  /** `to` becomes a register plus a constant, or plus something unknown (null). */
  sum: { to: RegisterName; of: RegisterName; addedBytes: number | null } | null;
  constant: { to: RegisterName; value: number } | null;
  /** An address relative to the code (RIP), from the start of the function. */
  address: { to: RegisterName; fromStartBytes: number } | null;
  /** Memory that it writes, except the stack slot of a push or call. */
  stores: (MemoryPlace & { sizeBytes: number; isIndexed: boolean })[];
  /** Where an indirect call or jump loads its target from. */
  targetFrom: MemoryPlace | null;
}

type Instruction = InstanceType<Iced["Instruction"]>;
type UsedMemory = InstanceType<Iced["UsedMemory"]>;

export function effectOf(
  iced: Iced,
  registers: ReadonlyMap<number, RegisterName>,
  instruction: Instruction,
  usedMemory: readonly UsedMemory[],
): InstructionEffect {
  const reader = new EffectReader(iced, registers, instruction);
  return {
    copy: reader.copy(),
    sum: reader.sum(),
    constant: reader.constant(),
    address: reader.address(),
    stores: usedMemory.flatMap((used) => reader.store(used)),
    targetFrom: reader.targetFrom(),
  };
}

class EffectReader {
  readonly #iced: Iced;
  readonly #registers: ReadonlyMap<number, RegisterName>;
  readonly #instruction: Instruction;

  constructor(iced: Iced, registers: ReadonlyMap<number, RegisterName>, instruction: Instruction) {
    this.#iced = iced;
    this.#registers = registers;
    this.#instruction = instruction;
  }

  copy(): InstructionEffect["copy"] {
    const { Mnemonic } = this.#iced;
    const { mnemonic } = this.#instruction;
    if (mnemonic !== Mnemonic.Mov && mnemonic !== Mnemonic.Movzx && mnemonic !== Mnemonic.Movsx && mnemonic !== Mnemonic.Movsxd)
      return null;
    const [to, from] = [this.#operand(0), this.#operand(1)];
    return to === null || from === null ? null : { from: from.place, to: to.place, sizeBytes: Math.min(from.sizeBytes, to.sizeBytes) };
  }

  sum(): InstructionEffect["sum"] {
    const { Mnemonic, Register } = this.#iced;
    const { mnemonic, op0Register, op1Kind } = this.#instruction;
    const to = this.#registers.get(op0Register);
    // Whole registers only: part of an address is not an address.
    if (to === undefined) return null;
    if (mnemonic === Mnemonic.Lea) {
      const of = this.#registers.get(this.#instruction.memoryBase);
      if (of === undefined) return null;
      const isIndexed = this.#instruction.memoryIndex !== Register.None;
      return { to, of, addedBytes: isIndexed ? null : this.#displacement };
    }
    if (mnemonic !== Mnemonic.Add && mnemonic !== Mnemonic.Sub) return null;
    if (!this.#isImmediate(op1Kind)) return mnemonic === Mnemonic.Add ? { to, of: to, addedBytes: null } : null;
    const bytes = Number(BigInt.asIntN(64, this.#instruction.immediate(1)));
    return { to, of: to, addedBytes: mnemonic === Mnemonic.Add ? bytes : -bytes };
  }

  constant(): InstructionEffect["constant"] {
    const { Mnemonic, RegisterExt } = this.#iced;
    const { mnemonic, op0Kind, op0Register, op1Kind, op1Register } = this.#instruction;
    if (op0Kind !== this.#iced.OpKind.Register || RegisterExt.size(op0Register) < 4) return null;
    const to = this.#registers.get(RegisterExt.fullRegister(op0Register));
    if (to === undefined) return null;
    if (mnemonic === Mnemonic.Xor && op1Kind === this.#iced.OpKind.Register && op1Register === op0Register) return { to, value: 0 };
    if (mnemonic !== Mnemonic.Mov || !this.#isImmediate(op1Kind)) return null;
    return { to, value: Number(BigInt.asIntN(64, this.#instruction.immediate(1))) };
  }

  address(): InstructionEffect["address"] {
    const { mnemonic, isIpRelMemoryOperand, op0Register } = this.#instruction;
    const to = this.#registers.get(op0Register);
    if (mnemonic !== this.#iced.Mnemonic.Lea || !isIpRelMemoryOperand || to === undefined) return null;
    return { to, fromStartBytes: Number(BigInt.asIntN(64, this.#instruction.ipRelMemoryAddress)) };
  }

  store(used: UsedMemory): InstructionEffect["stores"] {
    const { OpAccess, MemorySizeExt, Register } = this.#iced;
    const { access } = used;
    const base = this.#registers.get(used.base);
    const isWrite = access !== OpAccess.None && access !== OpAccess.Read && access !== OpAccess.CondRead && access !== OpAccess.NoMemAccess;
    if (!isWrite || base === undefined) return [];
    return [
      {
        base,
        displacementBytes: Number(BigInt.asIntN(64, used.displacement)),
        // Unknown sizes, such as of repeated string instructions, count as large.
        sizeBytes: MemorySizeExt.size(used.memorySize) || maxStoreBytes,
        isIndexed: used.index !== Register.None,
      },
    ];
  }

  targetFrom(): MemoryPlace | null {
    const { FlowControl, OpKind } = this.#iced;
    const { flowControl, op0Kind } = this.#instruction;
    if ((flowControl !== FlowControl.IndirectCall && flowControl !== FlowControl.IndirectBranch) || op0Kind !== OpKind.Memory) return null;
    return this.#memory();
  }

  #operand(index: 0 | 1): { place: ValuePlace; sizeBytes: number } | null {
    const { MemorySizeExt, OpKind, RegisterExt, Register } = this.#iced;
    const kind = index === 0 ? this.#instruction.op0Kind : this.#instruction.op1Kind;
    if (kind === OpKind.Memory) {
      const place = this.#memory();
      return place === null ? null : { place, sizeBytes: MemorySizeExt.size(this.#instruction.memorySize) };
    }
    if (kind !== OpKind.Register) return null;
    const part = index === 0 ? this.#instruction.op0Register : this.#instruction.op1Register;
    // ah, bh, ch and dh are not low bytes.
    if (part === Register.AH || part === Register.BH || part === Register.CH || part === Register.DH) return null;
    const register = this.#registers.get(RegisterExt.fullRegister(part));
    return register === undefined ? null : { place: { register }, sizeBytes: RegisterExt.size(part) };
  }

  #memory(): MemoryPlace | null {
    const { None } = this.#iced.Register;
    const { memoryBase, memoryIndex, memorySegment } = this.#instruction;
    const base = this.#registers.get(memoryBase);
    const isPlain = memorySegment !== this.#iced.Register.FS && memorySegment !== this.#iced.Register.GS;
    return base === undefined || memoryIndex !== None || !isPlain ? null : { base, displacementBytes: this.#displacement };
  }

  get #displacement(): number {
    return Number(BigInt.asIntN(64, this.#instruction.memoryDisplacement));
  }

  #isImmediate(kind: number): boolean {
    const { OpKind } = this.#iced;
    return [OpKind.Immediate8, OpKind.Immediate8to32, OpKind.Immediate8to64, OpKind.Immediate32, OpKind.Immediate32to64].includes(kind);
  }
}

const maxStoreBytes = 4096;
