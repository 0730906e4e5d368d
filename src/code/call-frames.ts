/**
 * Unwinds from a function to its caller by the tables for exceptions (`.eh_frame`, found through `.eh_frame_hdr`): x86-64 code without
 * frame pointers cannot be unwound otherwise. Functions are decoded on demand. Every size in the file is checked.
 */

import { type ElfImage, readPart } from "./elf-image.ts";

/** Where a register's saved value is: at an offset from the CFA, at or as the result of an expression, or lost (null). */
export type FrameRule = number | { expression: Buffer; isValue: boolean } | "undefined";

/** Applies from `pc` up to the next row. */
export interface FrameRow {
  pc: number;
  /** The canonical frame address (CFA): a register (DWARF number) plus an offset, or an expression. */
  register: number;
  offset: number;
  expression: Buffer | null;
  /** By DWARF register number. Without a rule, the register is unchanged. */
  rules: ReadonlyMap<number, FrameRule>;
}

export interface FrameFunction {
  start: number;
  end: number;
  /** A signal frame: the caller's address is not a return address. */
  isSignal: boolean;
  rows: readonly FrameRow[];
}

/** DWARF numbers of the registers of x86-64. */
export const registerNumbers = { rbx: 3, rbp: 6, rsp: 7, r12: 12, r13: 13, r14: 14, r15: 15, returnAddress: 16 } as const;

/** PT_GNU_EH_FRAME */
const frameSegment = 0x6474e550;
/** PC-relative, plain, table-relative: the encodings of all linkers. */
const headerEncodings = [1, 0x1b, 0x03, 0x3b];
const headerBytes = 12;
const maxFunctions = 4_000_000;
const maxEntryBytes = 64 * 1024;
/** Limit per function; more indicate a hostile file. */
const maxRows = 4_096;
const maxRegister = 32;
const maxSavedStates = 64;

export interface CallFrames {
  /** Approximate memory of the data read and decoded. */
  readonly sizeBytes: number;
  /** Null if the file has no table for the address, or a damaged one. */
  find(address: number): FrameFunction | null;
  /** Frees the data; the next `find` reads it again. */
  release(): void;
}

/** Null for a file without such tables. */
export function readCallFrames(image: ElfImage): CallFrames | null {
  const segment = image.machine === "x64" ? image.segments.find(({ type }) => type === frameSegment) : undefined;
  if (segment === undefined) return null;
  const header = readPart(image.readAt, segment.fileOffset, headerBytes);
  if (header.length < headerBytes || headerEncodings.some((value, index) => header[index] !== value)) return null;
  const count = Math.min(header.readUInt32LE(8), maxFunctions, Math.floor((segment.fileBytes - headerBytes) / 8));
  return new FrameTable(image, segment.address, segment.fileOffset + headerBytes, count);
}

/** A "common information entry" (CIE), shared by functions. */
interface Common {
  codeUnit: number;
  dataUnit: number;
  pointerEncoding: number;
  hasAugmentation: boolean;
  isSignal: boolean;
  /** The initial state of each of its functions. */
  state: State;
}

const maxCommons = 256;
/** Limit on cached functions; all are dropped beyond it. */
const maxDecoded = 512;
/** Approximate size of a decoded function: a dozen rows. */
const decodedBytes = 1_024;

class FrameTable implements CallFrames {
  readonly #image: ElfImage;
  readonly #table: number;
  readonly #count: number;
  readonly #tableOffset: number;
  readonly #commons = new Map<number, Common | null>();
  /** By address of the entry. */
  readonly #decoded = new Map<number, FrameFunction | null>();
  /**
   * Start of each function, ascending, with the offset of its entry, both relative to the table. Read on first use: 8 bytes per function.
   */
  #index: Int32Array | undefined;

  constructor(image: ElfImage, table: number, tableOffset: number, count: number) {
    this.#image = image;
    this.#table = table;
    this.#tableOffset = tableOffset;
    this.#count = count;
  }

  get sizeBytes(): number {
    return (this.#index?.byteLength ?? 0) + this.#decoded.size * decodedBytes;
  }

  release(): void {
    this.#index = undefined;
    this.#decoded.clear();
  }

  find(address: number): FrameFunction | null {
    const entry = this.#entryOf(address);
    if (entry === null) return null;
    let found = this.#decoded.get(entry);
    if (found === undefined) {
      found = this.#tryDecode(entry);
      if (this.#decoded.size >= maxDecoded) this.#decoded.clear();
      this.#decoded.set(entry, found);
    }
    return found !== null && address >= found.start && address < found.end ? found : null;
  }

  #tryDecode(entry: number): FrameFunction | null {
    try {
      return this.#decode(entry);
    } catch (error) {
      if (error instanceof RangeError) return null; // the entry is shorter than declared
      throw error;
    }
  }

  #entryOf(address: number): number | null {
    const index = (this.#index ??= this.#readIndex());
    const wanted = address - this.#table;
    let [low, high] = [0, index.length >>> 1];
    while (low < high) {
      const middle = (low + high) >>> 1;
      if ((index[middle * 2] ?? 0) > wanted) high = middle;
      else low = middle + 1;
    }
    return low === 0 ? null : this.#table + (index[low * 2 - 1] ?? 0);
  }

  #readIndex(): Int32Array {
    const bytes = readPart(this.#image.readAt, this.#tableOffset, this.#count * 8);
    const whole = bytes.length - (bytes.length % 8);
    return new Int32Array(bytes.buffer, bytes.byteOffset, whole / 4);
  }

  /** Length, distance back to the CIE, start, size, augmentation, instructions. */
  #decode(at: number): FrameFunction | null {
    const entry = this.#read(at);
    if (entry === null) return null;
    const common = this.#commonAt(at + 4 - entry.bytes.readUInt32LE(0));
    if (common === null) return null;
    const reader = new Reader(entry.bytes, 4, entry.address);
    const start = reader.pointer(common.pointerEncoding);
    const sizeBytes = reader.pointer(common.pointerEncoding & 0x0f);
    if (common.hasAugmentation) reader.skip(reader.unsigned());
    const rows = run(reader, common, common.state, start);
    return rows === null ? null : { start, end: start + sizeBytes, isSignal: common.isSignal, rows };
  }

  #commonAt(at: number): Common | null {
    let common = this.#commons.get(at);
    if (common === undefined) {
      const entry = this.#read(at);
      common = entry === null ? null : readCommon(entry);
      if (this.#commons.size < maxCommons) this.#commons.set(at, common);
    }
    return common;
  }

  /** The bytes after the length, and their address. */
  #read(at: number): { bytes: Buffer; address: number } | null {
    const length = this.#image.readAddress(at, 4);
    const sizeBytes = length.length < 4 ? 0 : length.readUInt32LE(0);
    if (sizeBytes < 8 || sizeBytes > maxEntryBytes) return null;
    const bytes = this.#image.readAddress(at + 4, sizeBytes);
    return bytes.length < sizeBytes ? null : { bytes, address: at + 4 };
  }
}

function readCommon({ bytes, address }: { bytes: Buffer; address: number }): Common | null {
  const version = bytes[4];
  const end = bytes.indexOf(0, 5);
  if (bytes.readUInt32LE(0) !== 0 || (version !== 1 && version !== 3) || end < 0) return null;
  const augmentation = bytes.toString("latin1", 5, end);
  const reader = new Reader(bytes, end + 1, address);
  const codeUnit = reader.unsigned();
  const dataUnit = reader.signed();
  const returnRegister = version === 1 ? reader.byte() : reader.unsigned();
  if (returnRegister !== registerNumbers.returnAddress || (augmentation !== "" && !augmentation.startsWith("z"))) return null;
  let pointerEncoding = 0;
  if (augmentation !== "") {
    const dataEnd = reader.unsigned() + reader.at;
    for (const letter of augmentation.slice(1)) {
      if (letter === "R") pointerEncoding = reader.byte();
      else if (letter === "L") reader.skip(1);
      else if (letter === "P") reader.pointer(reader.byte() & 0x0f);
      else if (letter !== "S" && letter !== "B") break;
    }
    reader.at = dataEnd;
  }
  const common = { codeUnit, dataUnit, pointerEncoding, hasAugmentation: augmentation !== "", isSignal: augmentation.includes("S") };
  const rows = run(reader, { ...common, state: emptyState }, emptyState, 0);
  const last = rows?.at(-1);
  return last === undefined ? null : { ...common, state: last };
}

type State = Omit<FrameRow, "pc">;

const emptyState: State = { register: registerNumbers.rsp, offset: 8, expression: null, rules: new Map() };

/** <dwarf.h>, DW_CFA_*: instructions of one byte with an operand in their low bits, then all others. */
const short = { advance: 0x40, offset: 0x80, restore: 0xc0 } as const;
const instruction = {
  nothing: 0x00,
  setPc: 0x01,
  advance1: 0x02,
  advance2: 0x03,
  advance4: 0x04,
  offsetExtended: 0x05,
  restoreExtended: 0x06,
  undefined: 0x07,
  sameValue: 0x08,
  register: 0x09,
  rememberState: 0x0a,
  restoreState: 0x0b,
  frame: 0x0c,
  frameRegister: 0x0d,
  frameOffset: 0x0e,
  frameExpression: 0x0f,
  expression: 0x10,
  offsetExtendedSigned: 0x11,
  frameSigned: 0x12,
  frameOffsetSigned: 0x13,
  valueOffset: 0x14,
  valueExpression: 0x16,
  argumentsSize: 0x2e,
  negativeOffset: 0x2f,
} as const;

/** Null for unknown instructions: everything after them would be wrong. */
function run(reader: Reader, common: Common, initial: State, start: number): FrameRow[] | null {
  return new Program(reader, common, initial, start).run();
}

class Program {
  readonly #reader: Reader;
  readonly #common: Common;
  readonly #initial: State;
  readonly #rows: FrameRow[] = [];
  readonly #saved: State[] = [];
  #pc: number;
  #frame: Omit<State, "rules">;
  #rules: ReadonlyMap<number, FrameRule>;
  /** The current rules if they are not shared with a row or a saved state. */
  #own: Map<number, FrameRule> | undefined;

  constructor(reader: Reader, common: Common, initial: State, start: number) {
    this.#reader = reader;
    this.#common = common;
    this.#initial = initial;
    this.#pc = start;
    this.#frame = initial;
    this.#rules = initial.rules;
  }

  run(): FrameRow[] | null {
    while (!this.#reader.isAtEnd) {
      if (this.#rows.length > maxRows || !this.#step(this.#reader.byte())) return null;
    }
    this.#emit();
    return this.#rows;
  }

  #emit(): void {
    const { register, offset, expression } = this.#frame;
    this.#rows.push({ pc: this.#pc, register, offset, expression, rules: this.#rules });
    this.#own = undefined;
  }

  #advance(units: number): true {
    if (units === 0) return true;
    this.#emit();
    this.#pc += units * this.#common.codeUnit;
    return true;
  }

  #set(register: number, rule: FrameRule | undefined): boolean {
    if (register > maxRegister) return false;
    this.#own ??= new Map(this.#rules);
    this.#rules = this.#own;
    if (rule === undefined) this.#own.delete(register);
    else this.#own.set(register, rule);
    return true;
  }

  /** False for an unknown instruction. */
  #step(code: number): boolean {
    const reader = this.#reader;
    const low = code & 0x3f;
    switch (code & 0xc0) {
      case short.advance:
        return this.#advance(low);
      case short.offset:
        return this.#set(low, reader.unsigned() * this.#common.dataUnit);
      case short.restore:
        return this.#set(low, this.#initial.rules.get(low));
      default:
        return this.#stepRows(code) ?? this.#stepFrame(code) ?? this.#stepRegister(code) ?? false;
    }
  }

  #stepRows(code: number): boolean | undefined {
    const reader = this.#reader;
    switch (code) {
      case instruction.nothing:
        return true;
      case instruction.setPc:
        this.#emit();
        this.#pc = reader.pointer(this.#common.pointerEncoding);
        return true;
      case instruction.advance1:
        return this.#advance(reader.byte());
      case instruction.advance2:
        return this.#advance(reader.uint16());
      case instruction.advance4:
        return this.#advance(reader.uint32());
      case instruction.argumentsSize:
        reader.unsigned();
        return true;
      case instruction.rememberState:
        this.#saved.push({ ...this.#frame, rules: this.#rules });
        this.#own = undefined;
        return this.#saved.length <= maxSavedStates;
      case instruction.restoreState: {
        const saved = this.#saved.pop();
        if (saved === undefined) return false;
        this.#frame = saved;
        this.#rules = saved.rules;
        this.#own = undefined;
        return true;
      }
      default:
        return undefined;
    }
  }

  #stepFrame(code: number): boolean | undefined {
    const reader = this.#reader;
    const { register, offset } = this.#frame;
    const { dataUnit } = this.#common;
    const set = (frame: Partial<Omit<State, "rules">>): true => {
      this.#frame = { register, offset, expression: null, ...frame };
      return true;
    };
    switch (code) {
      case instruction.frame:
        return set({ register: reader.unsigned(), offset: reader.unsigned() });
      case instruction.frameSigned:
        return set({ register: reader.unsigned(), offset: reader.signed() * dataUnit });
      case instruction.frameRegister:
        return set({ register: reader.unsigned() });
      case instruction.frameOffset:
        return set({ offset: reader.unsigned() });
      case instruction.frameOffsetSigned:
        return set({ offset: reader.signed() * dataUnit });
      case instruction.frameExpression:
        return set({ expression: reader.block() });
      default:
        return undefined;
    }
  }

  #stepRegister(code: number): boolean | undefined {
    const reader = this.#reader;
    const { dataUnit } = this.#common;
    switch (code) {
      case instruction.offsetExtended:
        return this.#set(reader.unsigned(), reader.unsigned() * dataUnit);
      case instruction.offsetExtendedSigned:
        return this.#set(reader.unsigned(), reader.signed() * dataUnit);
      case instruction.negativeOffset:
        return this.#set(reader.unsigned(), -reader.unsigned() * dataUnit);
      case instruction.restoreExtended: {
        const register = reader.unsigned();
        return this.#set(register, this.#initial.rules.get(register));
      }
      case instruction.undefined:
        return this.#set(reader.unsigned(), "undefined");
      case instruction.sameValue:
        return this.#set(reader.unsigned(), undefined);
      // Saved in another register, or computed: not supported for registers that unwinding needs.
      case instruction.register:
      case instruction.valueOffset: {
        const register = reader.unsigned();
        reader.unsigned();
        return this.#set(register, "undefined");
      }
      case instruction.expression:
        return this.#set(reader.unsigned(), { expression: reader.block(), isValue: false });
      case instruction.valueExpression:
        return this.#set(reader.unsigned(), { expression: reader.block(), isValue: true });
      default:
        return undefined;
    }
  }
}

/** Reads numbers from an entry. Throws RangeError past its end. */
class Reader {
  readonly #bytes: Buffer;
  /** Address of the first byte in the file's own address space. */
  readonly #address: number;
  at: number;

  constructor(bytes: Buffer, at: number, address: number) {
    this.#bytes = bytes;
    this.#address = address;
    this.at = at;
  }

  get isAtEnd(): boolean {
    return this.at >= this.#bytes.length;
  }

  skip(count: number): void {
    this.at += count;
  }

  byte(): number {
    return this.#bytes.readUInt8(this.at++);
  }

  uint16(): number {
    this.at += 2;
    return this.#bytes.readUInt16LE(this.at - 2);
  }

  uint32(): number {
    this.at += 4;
    return this.#bytes.readUInt32LE(this.at - 4);
  }

  /** ULEB128; exact up to 2^49. */
  unsigned(): number {
    let [value, factor] = [0, 1];
    for (let count = 0; count < 8; count++) {
      const byte = this.byte();
      value += (byte & 0x7f) * factor;
      if (byte < 0x80) return value;
      factor *= 128;
    }
    throw new RangeError("a number is too long");
  }

  /** SLEB128. */
  signed(): number {
    let [value, factor] = [0, 1];
    for (let count = 0; count < 8; count++) {
      const byte = this.byte();
      value += (byte & 0x7f) * factor;
      factor *= 128;
      if (byte < 0x80) return (byte & 0x40) === 0 ? value : value - factor;
    }
    throw new RangeError("a number is too long");
  }

  block(): Buffer {
    const length = this.unsigned();
    if (this.at + length > this.#bytes.length) throw new RangeError("a block is longer than its entry");
    this.at += length;
    return this.#bytes.subarray(this.at - length, this.at);
  }

  /** DW_EH_PE_*: the low half is the format; 0x10 means relative to the pointer's own address. */
  pointer(encoding: number): number {
    const own = this.#address + this.at;
    const value = this.#pointerValue(encoding & 0x0f);
    return (encoding & 0x70) === 0x10 ? own + value : value;
  }

  #pointerValue(form: number): number {
    const bytes = this.#bytes;
    const start = this.at;
    switch (form) {
      case 0x0b:
        this.at += 4;
        return bytes.readInt32LE(start);
      case 0x03:
        this.at += 4;
        return bytes.readUInt32LE(start);
      case 0x0a:
        this.at += 2;
        return bytes.readInt16LE(start);
      case 0x02:
        this.at += 2;
        return bytes.readUInt16LE(start);
      case 0x00:
      case 0x04:
      case 0x0c:
        this.at += 8;
        return Number(bytes.readBigInt64LE(start));
      default:
        throw new RangeError(`a pointer has the unknown format ${form}`);
    }
  }
}
