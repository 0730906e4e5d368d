/** What a stripped ELF file still reveals: where a function ends, and which function a pointer in its data refers to. */

import { type ElfImage, readPart, readWord, segmentTypes } from "./elf-image.ts";

/** PT_GNU_EH_FRAME: the table that exception handling uses to find functions. */
const unwindSegment = 0x6474e550;
/** Pointer encodings that today's linkers write: PC-relative, absolute, relative to the table; four bytes each. */
const unwindEncodings = [1, 0x1b, 0x03, 0x3b];
const unwindHeaderBytes = 12;
const maxFunctions = 4_000_000;
const maxFunctionBytes = 1 << 20;

/** An unnamed function, or an unnamed part of one. */
export interface CodeRange {
  address: number;
  sizeBytes: number;
}

/** The function that contains the address; null if the file has no such information. */
export function findCodeRange(image: ElfImage, address: number): CodeRange | null {
  const segment = image.segments.find(({ type }) => type === unwindSegment);
  if (segment === undefined) return null;
  const table = segment.address;
  const header = image.readAddress(table, unwindHeaderBytes);
  if (header.length < unwindHeaderBytes || unwindEncodings.some((value, index) => header[index] !== value)) return null;
  // Start of each function, ascending, and the position of its entry.
  let [low, high] = [0, Math.min(header.readUInt32LE(8), maxFunctions)];
  let range: CodeRange | null = null;
  while (low < high) {
    const middle = (low + high) >>> 1;
    const entry = image.readAddress(table + unwindHeaderBytes + middle * 8, 8);
    if (entry.length < 8) return null;
    const start = table + entry.readInt32LE(0);
    if (start > address) {
      high = middle;
      continue;
    }
    range = rangeAt(image, table + entry.readInt32LE(4), start);
    low = middle + 1;
  }
  return range !== null && address < range.address + range.sizeBytes ? range : null;
}

/** Length, CIE pointer, begin (PC-relative), size. */
function rangeAt(image: ElfImage, frame: number, address: number): CodeRange | null {
  const bytes = image.readAddress(frame, 16);
  if (bytes.length < 16 || frame + 8 + bytes.readInt32LE(8) !== address) return null;
  const sizeBytes = bytes.readUInt32LE(12);
  return sizeBytes > 0 && sizeBytes <= maxFunctionBytes ? { address, sizeBytes } : null;
}

const dynamicTags = { end: 0, relocations: 7, relocationBytes: 8 } as const;
const relocationBytes = 24;
const maxRelocationBytes = 64 * 1024 * 1024;
const relativeRelocation = 8;

/**
 * Pointers in a range of the file's data, with relocations applied as the dynamic linker would when the file is loaded at its preferred addresses. Null for
 * values that are not addresses in this file.
 */
export function readPointers(image: ElfImage, address: number, count: number): (number | null)[] {
  const bytes = image.readAddress(address, count * 8);
  const pointers: (number | null)[] = [];
  for (let at = 0; at + 8 <= bytes.length; at += 8) pointers.push(readWord(bytes, at));
  for (const { offset, type, addend } of relocationsIn(image, address, pointers.length * 8)) {
    if ((offset - address) % 8 === 0) pointers[(offset - address) / 8] = type === relativeRelocation ? addend : null;
  }
  return pointers;
}

function relocationsIn(image: ElfImage, address: number, sizeBytes: number): { offset: number; type: number; addend: number }[] {
  const segment = image.segments.find((one) => one.type === segmentTypes.dynamic);
  if (segment === undefined) return [];
  const entries = readPart(image.readAt, segment.fileOffset, Math.min(segment.fileBytes, 16 * 1024));
  const tags = new Map<number, number>();
  for (let at = 0; at + 16 <= entries.length; at += 16) {
    const tag = readWord(entries, at);
    if (tag === dynamicTags.end) break;
    tags.set(tag, readWord(entries, at + 8));
  }
  const table = tags.get(dynamicTags.relocations);
  const tableBytes = tags.get(dynamicTags.relocationBytes) ?? 0;
  if (table === undefined || tableBytes > maxRelocationBytes) return [];
  const bytes = image.readAddress(table, tableBytes);
  const found: { offset: number; type: number; addend: number }[] = [];
  for (let at = 0; at + relocationBytes <= bytes.length; at += relocationBytes) {
    const offset = readWord(bytes, at);
    if (offset < address || offset >= address + sizeBytes) continue;
    found.push({ offset, type: bytes.readUInt32LE(at + 8), addend: readWord(bytes, at + 16) });
  }
  return found;
}
