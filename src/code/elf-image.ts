/**
 * The outline of an ELF64 file: segments, sections, and bytes by address. Reads only what is requested, and never trusts a size that the
 * file states: every read is cut at a limit.
 */

import type { ReadAt } from "./elf-build-id.ts";

export interface ElfSegment {
  type: number;
  isExecutable: boolean;
  fileOffset: number;
  address: number;
  fileBytes: number;
}

export interface ElfSection {
  name: string;
  type: number;
  address: number;
  fileOffset: number;
  sizeBytes: number;
  /** Index of the section with this one's symbol names. */
  link: number;
}

export interface ElfImage {
  /** Null for unsupported processors. */
  readonly machine: "x64" | "arm64" | null;
  readonly segments: readonly ElfSegment[];
  /** Empty when the file is stripped. */
  readonly sections: readonly ElfSection[];
  readonly readAt: ReadAt;
  section(name: string): ElfSection | undefined;
  /** File offset of a loaded address; null when no segment contains it. */
  offsetOf(address: number): number | null;
  /** Whether an address is in an executable segment. */
  isCode(address: number): boolean;
  /** At most `sizeBytes` from a loaded address; fewer at the end of its segment, none outside of all segments. */
  readAddress(address: number, sizeBytes: number): Buffer;
}

export const segmentTypes = { load: 1, dynamic: 2 } as const;
export const sectionTypes = { symbols: 2, nothing: 8, dynamicSymbols: 11 } as const;

const elfMagic = 0x7f454c46;
const headerBytes = 64;
const segmentBytes = 56;
const sectionBytes = 64;
const maxSegments = 512;
const maxSections = 4096;
const maxNameTableBytes = 1024 * 1024;
const machines = new Map<number, "x64" | "arm64">([
  [62, "x64"],
  [183, "arm64"],
]);

/** 64-bit little-endian files only: null for all others, and for files that are not ELF. */
export function readElfImage(readAt: ReadAt): ElfImage | null {
  const header = readPart(readAt, 0, headerBytes);
  if (header.length < headerBytes || header.readUInt32BE(0) !== elfMagic || header[4] !== 2 || header[5] !== 1) return null;
  const segments = readSegments(readAt, header);
  const sections = readSections(readAt, header);
  const find = (address: number): ElfSegment | undefined =>
    segments.find((one) => one.type === segmentTypes.load && address >= one.address && address < one.address + one.fileBytes);
  return {
    machine: machines.get(header.readUInt16LE(18)) ?? null,
    segments,
    sections,
    readAt,
    section: (name) => sections.find((one) => one.name === name),
    offsetOf: (address) => {
      const segment = find(address);
      return segment === undefined ? null : address - segment.address + segment.fileOffset;
    },
    isCode: (address) => find(address)?.isExecutable === true,
    readAddress: (address, sizeBytes) => {
      const segment = find(address);
      if (segment === undefined) return Buffer.alloc(0);
      const left = segment.address + segment.fileBytes - address;
      return readPart(readAt, address - segment.address + segment.fileOffset, Math.min(sizeBytes, left));
    },
  };
}

/** The bytes of a range as far as the file has them; the caller bounds the size. */
export function readPart(readAt: ReadAt, offset: number, sizeBytes: number): Buffer {
  if (!Number.isSafeInteger(offset) || !Number.isSafeInteger(sizeBytes) || offset < 0 || sizeBytes <= 0) return Buffer.alloc(0);
  const bytes = Buffer.alloc(sizeBytes);
  return bytes.subarray(0, Math.max(0, readAt(bytes, offset)));
}

/** A 64-bit number as a double: exact below 2^53; larger values fail every later bounds check anyway. */
export function readWord(bytes: Buffer, offset: number): number {
  return bytes.readUInt32LE(offset) + bytes.readUInt32LE(offset + 4) * 2 ** 32;
}

function readSegments(readAt: ReadAt, header: Buffer): ElfSegment[] {
  if (header.readUInt16LE(54) !== segmentBytes) return [];
  const table = readPart(readAt, readWord(header, 32), Math.min(header.readUInt16LE(56), maxSegments) * segmentBytes);
  const segments: ElfSegment[] = [];
  for (let at = 0; at + segmentBytes <= table.length; at += segmentBytes) {
    segments.push({
      type: table.readUInt32LE(at),
      isExecutable: (table.readUInt32LE(at + 4) & 1) !== 0,
      fileOffset: readWord(table, at + 8),
      address: readWord(table, at + 16),
      fileBytes: readWord(table, at + 32),
    });
  }
  return segments;
}

function readSections(readAt: ReadAt, header: Buffer): ElfSection[] {
  if (header.readUInt16LE(58) !== sectionBytes) return [];
  const table = readPart(readAt, readWord(header, 40), Math.min(header.readUInt16LE(60), maxSections) * sectionBytes);
  const names = nameTable(readAt, table, header.readUInt16LE(62));
  const sections: ElfSection[] = [];
  for (let at = 0; at + sectionBytes <= table.length; at += sectionBytes) {
    sections.push({
      name: nameAt(names, table.readUInt32LE(at)),
      type: table.readUInt32LE(at + 4),
      address: readWord(table, at + 16),
      fileOffset: readWord(table, at + 24),
      sizeBytes: readWord(table, at + 32),
      link: table.readUInt32LE(at + 40),
    });
  }
  return sections;
}

function nameTable(readAt: ReadAt, table: Buffer, index: number): Buffer {
  const at = index * sectionBytes;
  if (at + sectionBytes > table.length) return Buffer.alloc(0);
  return readPart(readAt, readWord(table, at + 24), Math.min(readWord(table, at + 32), maxNameTableBytes));
}

const maxNameBytes = 256;

function nameAt(names: Buffer, offset: number): string {
  const end = names.indexOf(0, offset);
  if (offset >= names.length || end < 0 || end - offset > maxNameBytes) return "";
  return names.toString("latin1", offset, end);
}
