/**
 * Finds where OpenSSL copies the plaintext of a record to the caller: a site that every read with data passes, and no read without. It is in
 * `ssl3_read_bytes(ssl, type, received_type, buffer, length, peek, …)`, which implements `SSL_read()` since 1.1.0. The program `tls_copy` of
 * `probes/tls/openssl-copy.h` needs to know where three of these arguments are kept at that site, which is read from the machine code. If that is
 * ambiguous there is no plan, and reads are probed at entry and return instead.
 */

import {
  type ArgumentFlow,
  costsNs,
  decodeFunction,
  type ElfFunction,
  type ElfImage,
  findCodeRange,
  findForwarding,
  followArguments,
  type MachineInstruction,
  type RegisterName,
  readPointers,
} from "../../code/index.ts";
import type { PlannedProbe } from "./probe-plan.ts";

/** Returns the function table for all versions of TLS, with `ssl3_read_bytes`. Libraries export only this. */
export const methodName = "TLS_method";

export interface CopyPlan {
  probes: PlannedProbe[];
  costNs: number;
}

/** Arguments of `ssl3_read_bytes`: the object, the requested record type, and the peek flag. */
const keptArguments = [
  { argument: 0, sizeBytes: 8 },
  { argument: 1, sizeBytes: 1 },
  { argument: 5, sizeBytes: 4 },
] as const;
const bufferArgument = 3;
const maxFunctionBytes = 64 * 1024;
/** The calling function has a few hundred bytes; in a larger one the compiler may have inlined the copy. */
const maxCallerBytes = 1024;

/** Null if there is no such site, or it is ambiguous. Throws `invalid` if the bytes are not machine code. */
export function planCopies(image: ElfImage, functions: ReadonlyMap<string, ElfFunction>): CopyPlan | null {
  const copying = findCopying(image, functions.get(methodName));
  if (copying === null) return null;
  const flow = followArguments(codeOf(image, copying), {
    copied: bufferArgument,
    partAt: (fromStartBytes) => partAt(image, copying, fromStartBytes),
  });
  if (flow === null) return null;
  // The buffer is passed on only to be filled.
  const isCopy = ({ kind }: MachineInstruction, index: number): boolean => kind === "call" && flow.comesFrom(index, "rdi", bufferArgument);
  const copies = flow.instructions.flatMap((one, index) => (isCopy(one, index) ? [{ copy: one, index }] : []));
  const probes = copies.map(({ copy, index }) => probeAt(image, copying, copy, flow, index));
  return probes.length === 0 || !probes.every((probe) => probe !== null) ? null : { probes, costNs: costsNs.call };
}

/** A part of the function that is not contiguous with it. */
function partAt(image: ElfImage, { address }: ElfFunction, fromStartBytes: number): MachineInstruction[] | null {
  const range = findCodeRange(image, address + fromStartBytes);
  return range === null
    ? null
    : decodeFunction(image.readAddress(range.address, Math.min(range.sizeBytes, maxFunctionBytes)), range.address - address);
}

function probeAt(
  image: ElfImage,
  { address }: ElfFunction,
  copy: MachineInstruction,
  flow: ArgumentFlow,
  index: number,
): PlannedProbe | null {
  const fileOffset = image.offsetOf(address + copy.offsetBytes);
  if (!copy.isEmulated || fileOffset === null) return null;
  const locations = keptArguments.map(({ argument, sizeBytes }) => encodeLocation(flow.placesOf(index, argument, sizeBytes), sizeBytes));
  if (!locations.every((location) => location !== null)) return null;
  // Three times 16 bits fit a double.
  const cookie = locations.reduce((sum, location, position) => sum + location * 2 ** (position * locationBits), 0);
  return { program: "tls_copy", isReturn: false, fileOffset, cookie };
}

/** Same as in `probes/tls/openssl-copy.h`. */
const locationBits = 16;
const registerLocation = 0x8000;
const stackBytes = 128;
const locationRegisters: readonly RegisterName[] = ["rbx", "rbp", "r12", "r13", "r14", "r15"];

/** A callee-saved register, else a stack slot: the highest, since the lowest hold arguments of calls. */
function encodeLocation(locations: readonly (RegisterName | number)[], sizeBytes: number): number | null {
  const register = locationRegisters.findIndex((name) => locations.includes(name));
  if (register >= 0) return registerLocation + register;
  const fitting = locations.filter((location): location is number => typeof location === "number" && isInOneWord(location, sizeBytes));
  return fitting.length === 0 ? null : Math.max(...fitting);
}

function isInOneWord(location: number, sizeBytes: number): boolean {
  return location + sizeBytes <= stackBytes && (location % 8) + sizeBytes <= 8;
}

const tableWords = 32;
const applicationData = 23;
/** Size of the function that returns the table. */
const methodBytes = 32;

/**
 * Finds the copying function by its use: one function of the table calls it through its table slot, for application data and with NULL for the
 * received type.
 */
function findCopying(image: ElfImage, method: ElfFunction | undefined): ElfFunction | null {
  const table = method === undefined ? null : tableOf(image, method);
  if (table === null) return null;
  const functions = readPointers(image, table, tableWords).map((address) => (address === null ? null : functionAt(image, address)));
  const found = new Set(functions.flatMap((one) => (one === null ? [] : readsThrough(image, one))));
  const [slotBytes] = found;
  return found.size === 1 && slotBytes !== undefined ? (functions[slotBytes / 8] ?? null) : null;
}

/** The address that the function returns: relative to the code, or absolute. */
function tableOf(image: ElfImage, { address }: ElfFunction): number | null {
  for (const { kind, effect } of decodeFunction(image.readAddress(address, methodBytes))) {
    if (effect.address?.to === "rax") return address + effect.address.fromStartBytes;
    if (effect.constant?.to === "rax") return effect.constant.value;
    if (kind !== "other" && kind !== "nop") return null;
  }
  return null;
}

function functionAt(image: ElfImage, address: number): ElfFunction | null {
  const fileOffset = image.isCode(address) ? image.offsetOf(address) : null;
  const range = fileOffset === null ? null : findCodeRange(image, address);
  return fileOffset === null || range?.address !== address ? null : { name: "", fileOffset, ...range };
}

/** Table slots through which the function, or the one that it forwards to, reads application data. */
function readsThrough(image: ElfImage, candidate: ElfFunction): number[] {
  const forwarded = findForwarding(codeOf(image, candidate), ["rdi", "rsi"]);
  const inner = forwarded === null ? null : functionAt(image, candidate.address + forwarded);
  return [candidate, inner].flatMap((one) => {
    const code = one === null || one.sizeBytes > maxCallerBytes ? [] : codeOf(image, one);
    return code.flatMap((_, index) => slotReadThrough(code, index) ?? []);
  });
}

function slotReadThrough(code: readonly MachineInstruction[], index: number): number | null {
  const location = code[index]?.effect.targetFrom?.displacementBytes ?? -1;
  if (code[index]?.kind !== "call" || location < 0 || location >= tableWords * 8 || location % 8 !== 0) return null;
  return constantBefore(code, index, "rsi") === applicationData && constantBefore(code, index, "rdx") === 0 ? location : null;
}

/** The constant that the register was last set to in straight-line code before an instruction; null if it is not a constant. */
function constantBefore(code: readonly MachineInstruction[], index: number, register: RegisterName): number | null {
  for (let at = index - 1; at >= 0; at--) {
    const { kind, writes, effect } = code[at] as MachineInstruction;
    if (writes.has(register)) return effect.constant?.to === register ? effect.constant.value : null;
    if (kind !== "other" && kind !== "push" && kind !== "nop" && kind !== "nop5") return null;
  }
  return null;
}

function codeOf(image: ElfImage, { address, sizeBytes }: ElfFunction): MachineInstruction[] {
  return decodeFunction(image.readAddress(address, Math.min(sizeBytes, maxFunctionBytes)));
}
