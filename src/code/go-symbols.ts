/**
 * Functions of a Go program by name, from the table that its runtime needs for stack traces: it stays when a build is stripped. Layouts of Go 1.16,
 * 1.18 and 1.20 (which later versions kept).
 */

import { type ElfImage, readPart, readWord } from "./elf-image.ts";
import { type ElfFunction, eachPiece } from "./elf-symbols.ts";

export interface GoProgram {
  /** Such as "go1.19.8"; null if the program does not record it. */
  version: string | null;
  functions: Map<string, ElfFunction>;
}

const magics = new Map<number, "1.16" | "1.18">([
  [0xfffffffa, "1.16"],
  [0xfffffff0, "1.18"],
  [0xfffffff1, "1.18"],
]);
const tableNames = [".gopclntab", ".data.rel.ro.gopclntab"];
const infoNames = [".go.buildinfo", ".data.rel.ro.go.buildinfo"];
const headerBytes = 72;
const maxFunctions = 2_000_000;
const maxTableBytes = 512 * 1024 * 1024;
const maxFunctionBytes = 1024 * 1024;
const pieceBytes = 256 * 1024;

/** Whether the file is a Go program: a look at its section names. */
export function isGoProgram(image: ElfImage): boolean {
  return tableNames.some((name) => image.section(name) !== undefined);
}

/** Null if the file is not a Go program, or has an unknown layout. */
export function readGoProgram(image: ElfImage, names: readonly string[]): GoProgram | null {
  const table = readTable(image);
  if (table === null) return null;
  const nameOf = findNames(image, table, names);
  const functions = new Map<string, ElfFunction>();
  if (nameOf.size > 0) scanFunctions(image, table, nameOf, functions);
  return { version: readGoVersion(image), functions };
}

interface FunctionTable {
  layout: "1.16" | "1.18";
  fileOffset: number;
  sizeBytes: number;
  functions: number;
  textStart: number;
  namesOffset: number;
  namesBytes: number;
  /** Where the list of functions starts, and what their offsets count from. */
  listOffset: number;
}

function readTable(image: ElfImage): FunctionTable | null {
  const section = tableNames.map((name) => image.section(name)).find((one) => one !== undefined);
  if (section === undefined || section.sizeBytes > maxTableBytes) return null;
  const header = readPart(image.readAt, section.fileOffset, headerBytes);
  if (header.length < headerBytes || header[7] !== 8) return null;
  const layout = magics.get(header.readUInt32LE(0));
  if (layout === undefined) return null;
  // 1.18 put the start of the text between the counts and the offsets.
  const offsets = layout === "1.18" ? 32 : 24;
  const namesOffset = readWord(header, offsets);
  const unitsOffset = readWord(header, offsets + 8);
  const listOffset = readWord(header, offsets + 32);
  const functions = readWord(header, 8);
  const isSane =
    functions > 0 &&
    functions <= maxFunctions &&
    namesOffset <= unitsOffset &&
    unitsOffset <= section.sizeBytes &&
    listOffset < section.sizeBytes;
  if (!isSane) return null;
  return {
    layout,
    fileOffset: section.fileOffset,
    sizeBytes: section.sizeBytes,
    functions,
    textStart: layout === "1.18" ? textStart(image, readWord(header, 24)) : 0,
    namesOffset,
    namesBytes: unitsOffset - namesOffset,
    listOffset,
  };
}

/** Position-independent programs have it filled in when they are loaded, and the text section's address in the file. */
function textStart(image: ElfImage, stated: number): number {
  return stated !== 0 && image.isCode(stated) ? stated : (image.section(".text")?.address ?? 0);
}

/** Offset in the table of names to name. Names are whole strings there, each after the end of another. */
function findNames(image: ElfImage, table: FunctionTable, names: readonly string[]): Map<number, string> {
  const needles = names.map((name) => ({ name, bytes: Buffer.from(`\0${name}\0`, "latin1") }));
  const found = new Map<number, string>();
  const overlap = Math.max(...needles.map(({ bytes }) => bytes.length));
  eachPiece(image, table.fileOffset + table.namesOffset, table.namesBytes, overlap, (piece, start) => {
    for (const { name, bytes } of needles) {
      const at = piece.indexOf(bytes);
      if (at >= 0) found.set(start + at + 1, name);
    }
    return found.size < names.length;
  });
  return found;
}

function scanFunctions(image: ElfImage, table: FunctionTable, nameOf: Map<number, string>, found: Map<string, ElfFunction>): void {
  const wordBytes = table.layout === "1.18" ? 4 : 8;
  const entryBytes = wordBytes * 2;
  const word = (bytes: Buffer, at: number): number => (wordBytes === 4 ? bytes.readUInt32LE(at) : readWord(bytes, at));
  const details = createWindow(image, table);
  const perPiece = Math.floor(pieceBytes / entryBytes);
  for (let first = 0; first < table.functions && found.size < nameOf.size; first += perPiece) {
    const count = Math.min(perPiece, table.functions - first);
    // One entry more: where the last function ends is where the next one starts.
    const piece = readPart(image.readAt, table.fileOffset + table.listOffset + first * entryBytes, (count + 1) * entryBytes);
    for (let index = 0; index < count; index++) {
      const at = index * entryBytes;
      if (at + entryBytes + wordBytes > piece.length) return;
      const nameOffset = details(table.listOffset + word(piece, at + wordBytes) + wordBytes);
      const name = nameOffset === null ? undefined : nameOf.get(nameOffset);
      if (name === undefined || found.has(name)) continue;
      const start = word(piece, at);
      const sizeBytes = word(piece, at + entryBytes) - start;
      const address = table.textStart + start;
      const fileOffset = image.offsetOf(address);
      if (fileOffset === null || !image.isCode(address) || sizeBytes <= 0 || sizeBytes > maxFunctionBytes) continue;
      found.set(name, { name, address, fileOffset, sizeBytes });
    }
  }
}

/** Reads 32-bit numbers of the table at rising offsets, a piece of the file at a time. */
function createWindow(image: ElfImage, table: FunctionTable): (offset: number) => number | null {
  let piece: Buffer = Buffer.alloc(0);
  let start = 0;
  return (offset) => {
    if (offset < 0 || offset + 4 > table.sizeBytes) return null;
    if (offset < start || offset + 4 > start + piece.length) {
      start = offset;
      piece = readPart(image.readAt, table.fileOffset + offset, Math.min(pieceBytes, table.sizeBytes - offset));
      if (piece.length < 4) return null;
    }
    return piece.readUInt32LE(offset - start);
  };
}

const infoMagic = Buffer.from("\xff Go buildinf:", "latin1");
const maxVersionBytes = 128;

/** The version of Go that built the program. */
export function readGoVersion(image: ElfImage): string | null {
  const section = infoNames.map((name) => image.section(name)).find((one) => one !== undefined);
  if (section === undefined) return null;
  const info = readPart(image.readAt, section.fileOffset, 32 + 2 + maxVersionBytes);
  if (info.length < 34 || !info.subarray(0, infoMagic.length).equals(infoMagic)) return null;
  // Since 1.18 the text itself follows; before, the address of a string.
  const isInline = ((info[15] ?? 0) & 2) !== 0;
  return isInline ? inlineVersion(info) : referredVersion(image, readWord(info, 16));
}

function inlineVersion(info: Buffer): string | null {
  const length = info[32] ?? 0;
  return length > 0 && length < maxVersionBytes && 33 + length <= info.length ? info.toString("latin1", 33, 33 + length) : null;
}

function referredVersion(image: ElfImage, address: number): string | null {
  const string = image.readAddress(address, 16);
  if (string.length < 16) return null;
  const length = readWord(string, 8);
  return length > 0 && length < maxVersionBytes ? image.readAddress(readWord(string, 0), length).toString("latin1") || null : null;
}
