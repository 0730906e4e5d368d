/** The GNU build-id of an ELF file: the linker's identifier for its output. */

/** Reads from the file into the buffer; returns the number of bytes read. */
export type ReadAt = (into: Buffer, offset: number) => number;

const elfMagic = 0x7f454c46;
const noteSegment = 4;
const gnuBuildId = 3;
const maxSegments = 256;
const maxNoteBytes = 64 * 1024;

interface Layout {
  isLittleEndian: boolean;
  is64: boolean;
  segmentsOffset: number;
  segmentBytes: number;
  segments: number;
}

function layoutOf(header: Buffer): Layout | null {
  if (header.length < 64 || header.readUInt32BE(0) !== elfMagic) return null;
  const is64 = header[4] === 2;
  const isLittleEndian = header[5] === 1;
  const view = new DataView(header.buffer, header.byteOffset, header.length);
  const layout = is64
    ? {
        segmentsOffset: Number(view.getBigUint64(32, isLittleEndian)),
        segmentBytes: view.getUint16(54, isLittleEndian),
        segments: view.getUint16(56, isLittleEndian),
      }
    : {
        segmentsOffset: view.getUint32(28, isLittleEndian),
        segmentBytes: view.getUint16(42, isLittleEndian),
        segments: view.getUint16(44, isLittleEndian),
      };
  const isSane = Number.isSafeInteger(layout.segmentsOffset) && layout.segmentBytes >= (is64 ? 56 : 32) && layout.segmentBytes <= 1024;
  return isSane ? { is64, isLittleEndian, ...layout, segments: Math.min(layout.segments, maxSegments) } : null;
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
    // 8 (fast), 16 (md5, uuid) or 20 (sha1) bytes; lld makes others.
    if (isBuildId && valueBytes >= 4 && valueBytes <= 64) return notes.toString("hex", valueStart, end);
    offset = valueStart + padded(valueBytes);
  }
  return null;
}

/** Lower-case hex; null for files of another kind and those that have none. */
export function readBuildId(readAt: ReadAt): string | null {
  const header = Buffer.alloc(64);
  const layout = layoutOf(header.subarray(0, readAt(header, 0)));
  if (!layout) return null;
  const { is64, isLittleEndian } = layout;
  const table = Buffer.alloc(layout.segments * layout.segmentBytes);
  const tableBytes = readAt(table, layout.segmentsOffset);
  const view = new DataView(table.buffer, table.byteOffset, table.length);
  for (let start = 0; start + layout.segmentBytes <= tableBytes; start += layout.segmentBytes) {
    if (view.getUint32(start, isLittleEndian) !== noteSegment) continue;
    const offset = is64 ? Number(view.getBigUint64(start + 8, isLittleEndian)) : view.getUint32(start + 4, isLittleEndian);
    const size = is64 ? Number(view.getBigUint64(start + 32, isLittleEndian)) : view.getUint32(start + 16, isLittleEndian);
    if (!Number.isSafeInteger(offset) || size > maxNoteBytes) continue;
    const notes = Buffer.alloc(size);
    const id = buildIdIn(notes.subarray(0, readAt(notes, offset)), isLittleEndian);
    if (id !== null) return id;
  }
  return null;
}
