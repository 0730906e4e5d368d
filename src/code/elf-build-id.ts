/** The GNU build-id of an ELF file: the linker's identifier for its output. */

/** Reads from the file into the buffer; returns the number of bytes read. */
export type ReadAt = (into: Buffer, offset: number) => number;

const elfMagic = 0x7f454c46;
/** PT_NOTE and SHT_NOTE. */
const noteTypes = { segment: 4, section: 7 };
const gnuBuildId = 3;
const maxEntries = 256;
const maxNoteBytes = 64 * 1024;

/** A header table of the file: where its entries are, and which field of an entry locates its bytes. */
interface HeaderTable {
  offset: number;
  entryBytes: number;
  entries: number;
  noteType: number;
  /** Byte positions in an entry. */
  at: { type: number; offset: number; size: number };
}

interface Layout {
  isLittleEndian: boolean;
  is64: boolean;
  tables: readonly HeaderTable[];
}

/**
 * Segments first: they survive stripping. Go's linker leaves its GNU build-id out of the note segment, so sections come after them.
 */
function layoutOf(header: Buffer): Layout | null {
  if (header.length < 64 || header.readUInt32BE(0) !== elfMagic) return null;
  const is64 = header[4] === 2;
  const isLittleEndian = header[5] === 1;
  const view = new DataView(header.buffer, header.byteOffset, header.length);
  const uint16 = (at: number): number => view.getUint16(at, isLittleEndian);
  const word = (at: number): number => (is64 ? Number(view.getBigUint64(at, isLittleEndian)) : view.getUint32(at, isLittleEndian));
  const { segment, section } = noteTypes;
  const tables: HeaderTable[] = is64
    ? [
        { offset: word(32), entryBytes: uint16(54), entries: uint16(56), noteType: segment, at: { type: 0, offset: 8, size: 32 } },
        { offset: word(40), entryBytes: uint16(58), entries: uint16(60), noteType: section, at: { type: 4, offset: 24, size: 32 } },
      ]
    : [
        { offset: word(28), entryBytes: uint16(42), entries: uint16(44), noteType: segment, at: { type: 0, offset: 4, size: 16 } },
        { offset: word(32), entryBytes: uint16(46), entries: uint16(48), noteType: section, at: { type: 4, offset: 16, size: 20 } },
      ];
  return { is64, isLittleEndian, tables: tables.filter((table) => isSane(table, is64)) };
}

function isSane({ offset, entryBytes, at }: HeaderTable, is64: boolean): boolean {
  return Number.isSafeInteger(offset) && entryBytes >= at.size + (is64 ? 8 : 4) && entryBytes <= 1024;
}

function buildIdIn(notes: Buffer, isLittleEndian: boolean): string | null {
  const view = new DataView(notes.buffer, notes.byteOffset, notes.length);
  const padded = (size: number): number => (size + 3) & ~3;
  for (let offset = 0; offset + 12 <= notes.length; ) {
    const nameBytes = view.getUint32(offset, isLittleEndian);
    const valueBytes = view.getUint32(offset + 4, isLittleEndian);
    const valueStart = offset + 12 + padded(nameBytes);
    const end = valueStart + valueBytes;
    if (nameBytes > notes.length || valueBytes > notes.length || end > notes.length) return null;
    const isBuildId =
      view.getUint32(offset + 8, isLittleEndian) === gnuBuildId && notes.toString("latin1", offset + 12, offset + 16) === "GNU\0";
    // 8 (fast), 16 (md5, uuid) or 20 (sha1) bytes; lld writes other lengths.
    if (isBuildId && valueBytes >= 4 && valueBytes <= 64) return notes.toString("hex", valueStart, end);
    offset = valueStart + padded(valueBytes);
  }
  return null;
}

/** Lower-case hex; null for other file types and for files without one. */
export function readBuildId(readAt: ReadAt): string | null {
  const header = Buffer.alloc(64);
  const layout = layoutOf(header.subarray(0, readAt(header, 0)));
  for (const table of layout?.tables ?? []) {
    const id = layout && readFromTable(readAt, table, layout);
    if (id) return id;
  }
  return null;
}

function readFromTable(readAt: ReadAt, table: HeaderTable, { is64, isLittleEndian }: Layout): string | null {
  const bytes = Buffer.alloc(Math.min(table.entries, maxEntries) * table.entryBytes);
  const tableBytes = readAt(bytes, table.offset);
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.length);
  const word = (at: number): number => (is64 ? Number(view.getBigUint64(at, isLittleEndian)) : view.getUint32(at, isLittleEndian));
  for (let start = 0; start + table.entryBytes <= tableBytes; start += table.entryBytes) {
    if (view.getUint32(start + table.at.type, isLittleEndian) !== table.noteType) continue;
    const offset = word(start + table.at.offset);
    const size = word(start + table.at.size);
    if (!Number.isSafeInteger(offset) || size > maxNoteBytes) continue;
    const notes = Buffer.alloc(size);
    const id = buildIdIn(notes.subarray(0, readAt(notes, offset)), isLittleEndian);
    if (id !== null) return id;
  }
  return null;
}
