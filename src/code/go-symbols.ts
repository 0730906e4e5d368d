/**
 * Finds functions of a Go program by name, in the pclntab, which the runtime needs for stack traces and which therefore survives stripping. Supports the
 * layouts of Go 1.16, 1.18 and 1.20 (unchanged since).
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
const maxNameBytes = 1_024;

/** Whether the file is a Go program, by its section names. */
export function isGoProgram(image: ElfImage): boolean {
  return tableNames.some((name) => image.section(name) !== undefined);
}

/** Null if the file is not a Go program or has an unknown layout. */
export function readGoProgram(image: ElfImage, names: readonly string[]): GoProgram | null {
  const table = readTable(image);
  if (table === null) return null;
  const nameOf = findNames(image, table, names);
  const functions = new Map<string, ElfFunction>();
  if (nameOf.size > 0) scanFunctions(image, table, nameOf, functions);
  return { version: readGoVersion(image), functions };
}

/** The functions of a Go program at these addresses; empty for other programs. */
export function nameGoAddresses(image: ElfImage, addresses: readonly number[]): Map<number, { name: string; start: number }> {
  const named = new Map<number, { name: string; start: number }>();
  const table = isGoProgram(image) ? readTable(image) : null;
  if (table === null) return named;
  const wordBytes = table.layout === "1.18" ? 4 : 8;
  const word = (offset: number): number => {
    const bytes = readPart(image.readAt, table.fileOffset + offset, wordBytes);
    if (bytes.length < wordBytes) return Number.POSITIVE_INFINITY;
    return wordBytes === 4 ? bytes.readUInt32LE(0) : readWord(bytes, 0);
  };
  for (const address of addresses) {
    const wanted = address - table.textStart;
    let [low, high] = [0, table.functions];
    while (low < high) {
      const middle = (low + high) >>> 1;
      if (word(table.listOffset + middle * wordBytes * 2) <= wanted) low = middle + 1;
      else high = middle;
    }
    const at = table.listOffset + (low - 1) * wordBytes * 2;
    // The entry after the last one is the end of the text.
    if (low === 0 || wanted >= word(at + wordBytes * 2)) continue;
    const nameOffset = readPart(image.readAt, table.fileOffset + table.listOffset + word(at + wordBytes) + wordBytes, 4);
    if (nameOffset.length < 4 || nameOffset.readUInt32LE(0) >= table.namesBytes) continue;
    const text = readPart(image.readAt, table.fileOffset + table.namesOffset + nameOffset.readUInt32LE(0), maxNameBytes);
    const end = text.indexOf(0);
    if (end > 0) named.set(address, { name: text.toString("utf8", 0, end), start: table.textStart + word(at) });
  }
  return named;
}

interface FunctionTable {
  layout: "1.16" | "1.18";
  fileOffset: number;
  sizeBytes: number;
  functions: number;
  textStart: number;
  namesOffset: number;
  namesBytes: number;
  /** Where the function table starts, and the base of its offsets. */
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

/** In position-independent programs the loader fills it in; then the address of the text section applies. */
function textStart(image: ElfImage, stated: number): number {
  return stated !== 0 && image.isCode(stated) ? stated : (image.section(".text")?.address ?? 0);
}

/** Name by offset in the name table, which holds NUL-terminated strings. */
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
    // One entry more than functions: it ends the last one.
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

/** Reads 32-bit numbers of the table at ascending offsets, one chunk of the file at a time. */
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
  // Since 1.18 the string follows inline; before that, its address.
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
