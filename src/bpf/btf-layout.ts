/** Reads the type information (BTF) of an object: offsets of structure fields, and variables. <linux/btf.h>; little-endian only. */

import { readFileSync } from "node:fs";
import { CoralError } from "../base/errors.ts";

export interface Extent {
  offsetBytes: number;
  sizeBytes: number;
}

export interface StructLayout {
  sizeBytes: number;
  /** By path: `key`, `key.port`. Members of unnamed structures and unions have their own names; bit fields are omitted. */
  fields: ReadonlyMap<string, Extent>;
}

export interface BtfLayout {
  /** Throws `not-found` for an unknown structure or union. */
  struct(name: string): StructLayout;
  /** Variables of a section such as `.rodata`. Their offsets are 0 in a file, and correct in the BTF of an opened object. */
  variables(section: string): ReadonlyMap<string, Extent>;
  /** Values of the constants of an enumeration; empty for an unknown one. */
  enumeration(name: string): ReadonlyMap<string, number>;
}

const magic = 0xeb9f;
const kind = {
  int: 1,
  pointer: 2,
  array: 3,
  struct: 4,
  union: 5,
  enum: 6,
  typedef: 8,
  volatile: 9,
  const: 10,
  restrict: 11,
  prototype: 13,
  variable: 14,
  section: 15,
  float: 16,
  declarationTag: 17,
  typeTag: 18,
  enum64: 19,
} as const;
/** Size of what follows the 12 bytes of a type: per member, or once. */
const bytesPerPart: Readonly<Record<number, number>> = {
  [kind.struct]: 12,
  [kind.union]: 12,
  [kind.enum]: 8,
  [kind.prototype]: 8,
  [kind.section]: 12,
  [kind.enum64]: 12,
};
const bytesOnce: Readonly<Record<number, number>> = { [kind.int]: 4, [kind.array]: 12, [kind.variable]: 4, [kind.declarationTag]: 4 };
const pointerBytes = 8;
const maxDepth = 32;

interface BtfType {
  kind: number;
  name: string;
  parts: number;
  hasBitFields: boolean;
  /** Size in bytes, or the number of another type, depending on the kind. */
  sizeOrType: number;
  /** Offset of its members. */
  at: number;
}

/** Reads the section `.BTF` of an object file as clang writes it. */
export function readBtfLayout(objectPath: string): BtfLayout {
  const file = readFileSync(objectPath);
  try {
    return parseBtf(elfSection(file, ".BTF"));
  } catch (error) {
    throw new CoralError({
      code: "corrupt",
      message: `Cannot read the type information of "${objectPath}": ${error instanceof Error ? error.message : String(error)}`,
      cause: error,
    });
  }
}

/** Throws for bytes that are not BTF. */
export function parseBtf(bytes: Buffer): BtfLayout {
  const types = readTypes(bytes);
  const byName = (name: string, ...kinds: number[]): BtfType | undefined =>
    types.find((type) => type.name === name && kinds.includes(type.kind));
  return {
    struct: (name) => {
      const type = byName(name, kind.struct, kind.union);
      if (type === undefined) throw new CoralError({ code: "not-found", message: `Cannot find structure "${name}": the object has none` });
      const fields = new Map<string, Extent>();
      addFields(bytes, types, type, "", 0, fields, 0);
      return { sizeBytes: type.sizeOrType, fields };
    },
    variables: (section) => {
      const found = new Map<string, Extent>();
      const type = byName(section, kind.section);
      for (let part = 0; part < (type?.parts ?? 0); part++) {
        const at = (type?.at ?? 0) + part * 12;
        const name = types[bytes.readUInt32LE(at)]?.name ?? "";
        found.set(name, { offsetBytes: bytes.readUInt32LE(at + 4), sizeBytes: bytes.readUInt32LE(at + 8) });
      }
      return found;
    },
    enumeration: (name) => {
      const type = byName(name, kind.enum);
      const strings = stringReader(bytes);
      const found = new Map<string, number>();
      for (let part = 0; part < (type?.parts ?? 0); part++) {
        const at = (type?.at ?? 0) + part * 8;
        found.set(strings(bytes.readUInt32LE(at)), bytes.readInt32LE(at + 4));
      }
      return found;
    },
  };
}

function stringReader(bytes: Buffer): (offset: number) => string {
  const start = bytes.readUInt32LE(4) + bytes.readUInt32LE(16);
  return (offset) => bytes.toString("utf8", start + offset, bytes.indexOf(0, start + offset));
}

/** Number 0 is `void`. */
function readTypes(bytes: Buffer): BtfType[] {
  if (bytes.length < 24 || bytes.readUInt16LE(0) !== magic) throw new Error("it does not start with the magic number of BTF");
  const headerBytes = bytes.readUInt32LE(4);
  const string = stringReader(bytes);
  const types: BtfType[] = [{ kind: 0, name: "void", parts: 0, hasBitFields: false, sizeOrType: 0, at: 0 }];
  let at = headerBytes + bytes.readUInt32LE(8);
  const end = at + bytes.readUInt32LE(12);
  while (at < end) {
    const info = bytes.readUInt32LE(at + 4);
    const type: BtfType = {
      kind: (info >>> 24) & 31,
      name: string(bytes.readUInt32LE(at)),
      parts: info & 0xffff,
      hasBitFields: info >>> 31 === 1,
      sizeOrType: bytes.readUInt32LE(at + 8),
      at: at + 12,
    };
    types.push(type);
    at += 12 + (bytesOnce[type.kind] ?? 0) + (bytesPerPart[type.kind] ?? 0) * type.parts;
  }
  return types;
}

function addFields(
  bytes: Buffer,
  types: readonly BtfType[],
  type: BtfType,
  prefix: string,
  baseBytes: number,
  fields: Map<string, Extent>,
  depth: number,
): void {
  if (depth > maxDepth) throw new Error("structures are nested too deep");
  const string = stringReader(bytes);
  for (let part = 0; part < type.parts; part++) {
    const at = type.at + part * 12;
    const name = string(bytes.readUInt32LE(at));
    const place = bytes.readUInt32LE(at + 8);
    if (type.hasBitFields && place >>> 24 !== 0) continue;
    const offsetBytes = baseBytes + (type.hasBitFields ? place & 0xffffff : place) / 8;
    const inner = resolve(types, bytes.readUInt32LE(at + 4));
    if (name !== "") fields.set(prefix + name, { offsetBytes, sizeBytes: sizeOf(bytes, types, bytes.readUInt32LE(at + 4), 0) });
    if (inner.kind !== kind.struct && inner.kind !== kind.union) continue;
    addFields(bytes, types, inner, name === "" ? prefix : `${prefix}${name}.`, offsetBytes, fields, depth + 1);
  }
}

/** Without typedef, const, volatile, restrict and tags. */
function resolve(types: readonly BtfType[], id: number): BtfType {
  let type = types[id];
  for (let depth = 0; depth < maxDepth; depth++) {
    if (type === undefined) break;
    const isAlias = [kind.typedef, kind.volatile, kind.const, kind.restrict, kind.typeTag].some((alias) => alias === type?.kind);
    if (!isAlias) return type;
    type = types[type.sizeOrType];
  }
  throw new Error(`type ${id} leads nowhere`);
}

function sizeOf(bytes: Buffer, types: readonly BtfType[], id: number, depth: number): number {
  if (depth > maxDepth) throw new Error("arrays are nested too deep");
  const type = resolve(types, id);
  if (type.kind === kind.pointer) return pointerBytes;
  if (type.kind !== kind.array) return type.sizeOrType;
  return bytes.readUInt32LE(type.at + 8) * sizeOf(bytes, types, bytes.readUInt32LE(type.at), depth + 1);
}

/** One section of an ELF64 file. */
function elfSection(file: Buffer, wanted: string): Buffer {
  if (file.length < 64 || file.readUInt32BE(0) !== 0x7f454c46 || file[4] !== 2) throw new Error("it is not a 64-bit ELF file");
  const tableAt = Number(file.readBigUInt64LE(40));
  const entryBytes = file.readUInt16LE(58);
  const entry = (index: number): { name: number; at: number; sizeBytes: number } => {
    const at = tableAt + index * entryBytes;
    return {
      name: file.readUInt32LE(at),
      at: Number(file.readBigUInt64LE(at + 24)),
      sizeBytes: Number(file.readBigUInt64LE(at + 32)),
    };
  };
  const names = entry(file.readUInt16LE(62));
  for (let index = 0; index < file.readUInt16LE(60); index++) {
    const { name, at, sizeBytes } = entry(index);
    const nameAt = names.at + name;
    if (file.toString("latin1", nameAt, file.indexOf(0, nameAt)) === wanted) return file.subarray(at, at + sizeBytes);
  }
  throw new Error(`it has no section ${wanted}`);
}
