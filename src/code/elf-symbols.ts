/** Finds functions of an ELF file by name. Optimised for a few names in large files: node's executable has 150,000 symbols in 20 MB of tables. */

import { type ElfImage, type ElfSection, readPart, readWord, sectionTypes, segmentTypes } from "./elf-image.ts";

export interface ElfFunction {
  name: string;
  address: number;
  /** Where the function starts in the file. */
  fileOffset: number;
  /** 0 if the file does not record it. */
  sizeBytes: number;
}

const symbolBytes = 24;
const maxChainSteps = 4096;
const maxDynamicEntries = 1024;
const pieceBytes = 256 * 1024;
/** A larger table means a corrupt file, or a debug build that no service runs. */
const maxStringBytes = 256 * 1024 * 1024;
const maxSymbols = 8_000_000;

const dynamicTags = { end: 0, strings: 5, symbols: 6, gnuHash: 0x6ffffef5 } as const;
/** What a symbol stands for, and where it must lie. */
interface SymbolKind {
  types: readonly number[];
  isCode: boolean;
}
const functions: SymbolKind = { types: [2, 10], isCode: true };
const variables: SymbolKind = { types: [1], isCode: false };

/**
 * The requested functions that the file defines. First looks in the dynamic symbol table through its hash, with a few small reads per name.
 * Only for names not found there, scans the full symbol table once, in chunks, if there is one.
 */
export function findElfFunctions(image: ElfImage, names: readonly string[]): Map<string, ElfFunction> {
  return findSymbols(image, names, functions);
}

/** Addresses of global variables, in the same way. */
export function findElfVariables(image: ElfImage, names: readonly string[]): Map<string, number> {
  return new Map([...findSymbols(image, names, variables)].map(([name, { address }]) => [name, address]));
}

function findSymbols(image: ElfImage, names: readonly string[], kind: SymbolKind): Map<string, ElfFunction> {
  const found = findExported(image, names, kind);
  const rest = names.filter((name) => !found.has(name));
  if (rest.length > 0) {
    for (const section of image.sections) {
      if (section.type === sectionTypes.symbols) scanSymbols(image, section, rest, kind, found);
    }
  }
  return found;
}

/** Like `findElfFunctions`, but searches only the dynamic symbol table. */
export function findExportedFunctions(image: ElfImage, names: readonly string[]): Map<string, ElfFunction> {
  return findExported(image, names, functions);
}

/**
 * Whether the full symbol table may define this function, judged by its string table alone. Also true, without reading, when that table exceeds
 * `maxStringBytes`.
 */
export function mayDefine(image: ElfImage, name: string, maxStringBytes: number): boolean {
  return image.sections.some((section) => {
    const strings = section.type === sectionTypes.symbols ? image.sections[section.link] : undefined;
    return strings !== undefined && (strings.sizeBytes > maxStringBytes || findStrings(image, strings, [name]).size > 0);
  });
}

interface DynamicTable {
  hash: number;
  symbols: number;
  strings: number;
}

function findExported(image: ElfImage, names: readonly string[], kind: SymbolKind): Map<string, ElfFunction> {
  const found = new Map<string, ElfFunction>();
  const table = dynamicTable(image);
  if (table === null) return found;
  const hash = hashTable(image, table.hash);
  if (hash === null) return found;
  for (const name of names) {
    const symbol = lookUp(image, table, hash, name, kind);
    if (symbol !== null) found.set(name, symbol);
  }
  return found;
}

/** Addresses of the tables from PT_DYNAMIC, which exists in every dynamically linked file, even without sections. */
function dynamicTable(image: ElfImage): DynamicTable | null {
  const segment = image.segments.find((one) => one.type === segmentTypes.dynamic);
  if (segment === undefined) return null;
  const entries = readPart(image.readAt, segment.fileOffset, Math.min(segment.fileBytes, maxDynamicEntries * 16));
  const values = new Map<number, number>();
  for (let at = 0; at + 16 <= entries.length; at += 16) {
    const tag = readWord(entries, at);
    if (tag === dynamicTags.end) break;
    values.set(tag, readWord(entries, at + 8));
  }
  const [hash, symbols, strings] = [dynamicTags.gnuHash, dynamicTags.symbols, dynamicTags.strings].map((tag) => values.get(tag));
  return hash === undefined || symbols === undefined || strings === undefined ? null : { hash, symbols, strings };
}

interface HashTable {
  buckets: number;
  firstSymbol: number;
  bucketsAddress: number;
  chainsAddress: number;
}

function hashTable(image: ElfImage, address: number): HashTable | null {
  const header = image.readAddress(address, 16);
  if (header.length < 16) return null;
  const [buckets, firstSymbol, filterWords] = [0, 4, 8].map((at) => header.readUInt32LE(at)) as [number, number, number];
  if (buckets === 0) return null;
  const bucketsAddress = address + 16 + filterWords * 8;
  return { buckets, firstSymbol, bucketsAddress, chainsAddress: bucketsAddress + buckets * 4 };
}

/** The hash of DT_GNU_HASH: h * 33 + c from 5381. */
function gnuHash(name: string): number {
  let hash = 5381;
  for (let index = 0; index < name.length; index++) hash = (Math.imul(hash, 33) + name.charCodeAt(index)) >>> 0;
  return hash;
}

function lookUp(image: ElfImage, table: DynamicTable, hash: HashTable, name: string, kind: SymbolKind): ElfFunction | null {
  const wanted = gnuHash(name);
  const bucket = image.readAddress(hash.bucketsAddress + (wanted % hash.buckets) * 4, 4);
  if (bucket.length < 4) return null;
  const first = bucket.readUInt32LE(0);
  if (first < hash.firstSymbol) return null;
  const nameBytes = Buffer.from(`${name}\0`, "latin1");
  // Chains are a few entries long; one small read covers nearly all of them.
  for (let step = 0, index = first; step < maxChainSteps; ) {
    const chain = image.readAddress(hash.chainsAddress + (index - hash.firstSymbol) * 4, 64);
    if (chain.length < 4) return null;
    for (let at = 0; at + 4 <= chain.length; at += 4, index++, step++) {
      const value = chain.readUInt32LE(at);
      if ((value | 1) >>> 0 === (wanted | 1) >>> 0) {
        const symbol = definedSymbol(image, image.readAddress(table.symbols + index * symbolBytes, symbolBytes), 0, name, kind);
        if (symbol !== null && hasName(image, table.strings + symbol.nameOffset, nameBytes)) return symbol.found;
      }
      if ((value & 1) !== 0) return null;
    }
  }
  return null;
}

function hasName(image: ElfImage, address: number, expected: Buffer): boolean {
  return image.readAddress(address, expected.length).equals(expected);
}

function definedSymbol(
  image: ElfImage,
  bytes: Buffer,
  at: number,
  name: string,
  kind: SymbolKind,
): { nameOffset: number; found: ElfFunction } | null {
  if (at + symbolBytes > bytes.length) return null;
  const type = (bytes[at + 4] ?? 0) & 15;
  const isDefined = bytes.readUInt16LE(at + 6) !== 0;
  if (!isDefined || !kind.types.includes(type)) return null;
  const address = readWord(bytes, at + 8);
  const fileOffset = image.offsetOf(address);
  if (fileOffset === null || image.isCode(address) !== kind.isCode) return null;
  const sizeBytes = readWord(bytes, at + 16);
  return {
    nameOffset: bytes.readUInt32LE(at),
    found: { name, address, fileOffset, sizeBytes: Number.isSafeInteger(sizeBytes) ? sizeBytes : 0 },
  };
}

/**
 * Searches the string table first: a name that is not in it has no symbol. Linkers merge a name that is a suffix of another, so a match may start inside a
 * longer string.
 */
function scanSymbols(
  image: ElfImage,
  section: ElfSection,
  names: readonly string[],
  kind: SymbolKind,
  found: Map<string, ElfFunction>,
): void {
  const strings = image.sections[section.link];
  if (strings === undefined || strings.sizeBytes > maxStringBytes || section.sizeBytes > maxSymbols * symbolBytes) return;
  const nameOf = findStrings(image, strings, names);
  if (nameOf.size === 0) return;
  for (let start = 0; start < section.sizeBytes; ) {
    const wanted = Math.min(Math.floor(pieceBytes / symbolBytes) * symbolBytes, section.sizeBytes - start);
    const piece = readPart(image.readAt, section.fileOffset + start, wanted);
    for (let at = 0; at + symbolBytes <= piece.length; at += symbolBytes) {
      const name = nameOf.get(piece.readUInt32LE(at));
      if (name === undefined || found.has(name)) continue;
      const symbol = definedSymbol(image, piece, at, name, kind);
      if (symbol !== null) found.set(name, symbol.found);
    }
    if (piece.length < wanted) return;
    start += wanted;
  }
}

function findStrings(image: ElfImage, strings: ElfSection, names: readonly string[]): Map<number, string> {
  const needles = names.map((name) => ({ name, bytes: Buffer.from(`${name}\0`, "latin1") }));
  const nameOf = new Map<number, string>();
  eachPiece(image, strings.fileOffset, strings.sizeBytes, Math.max(...needles.map(({ bytes }) => bytes.length)), (piece, start) => {
    for (const { name, bytes } of needles) {
      for (let at = piece.indexOf(bytes); at >= 0 && nameOf.size < 4096; at = piece.indexOf(bytes, at + 1)) nameOf.set(start + at, name);
    }
    return true;
  });
  return nameOf;
}

/** Reads a range in chunks that overlap by `overlapBytes`, so that no match is split; stops when `use` returns false. */
export function eachPiece(
  image: ElfImage,
  fileOffset: number,
  sizeBytes: number,
  overlapBytes: number,
  use: (piece: Buffer, start: number) => boolean,
): void {
  const buffer = Buffer.alloc(Math.min(pieceBytes, Math.max(sizeBytes, 1)));
  for (let start = 0; start < sizeBytes; ) {
    const wanted = Math.min(buffer.length, sizeBytes - start);
    const length = Math.max(0, image.readAt(buffer.subarray(0, wanted), fileOffset + start));
    if (!use(buffer.subarray(0, length), start)) return;
    if (length < wanted || start + wanted >= sizeBytes) return;
    start += Math.max(wanted - overlapBytes, 1);
  }
}
