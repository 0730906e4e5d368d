/**
 * Frames of HTTP/2 as the kernel passes them on (probes/http2.h): one frame or a piece of one in each record, and only those that say
 * something about requests. A record has the 9 bytes of a frame's header, in which a sequence number of the direction stands in place of the length, and
 * as much of the frame's payload as was taken. The true length is that of the record.
 */

export const frameHeaderBytes = 9;

export const frameType = {
  /** One or several DATA frames of a stream that followed each other; only the last has END_STREAM. */
  data: 0,
  headers: 1,
  reset: 3,
  pushPromise: 5,
  goAway: 7,
  continuation: 9,
  /** Not of the standard: further bytes of the HEADERS, PUSH_PROMISE or CONTINUATION frame before. */
  more: 0xf0,
  /** Not of the standard: the connection preface was seen, so that nothing came before. */
  preface: 0xf1,
} as const;

export const frameFlag = { endStream: 1, endHeaders: 4, padded: 8, priority: 0x20 } as const;

const knownTypes: ReadonlySet<number> = new Set(Object.values(frameType));

export interface FrameRecord {
  sequence: number;
  type: number;
  flags: number;
  streamId: number;
}

/** Reads into `frame`. False when the bytes are no record of a frame. */
export function readFrameRecord(bytes: Buffer, frame: FrameRecord): boolean {
  if (bytes.length < frameHeaderBytes) return false;
  frame.sequence = bytes.readUIntBE(0, 3);
  frame.type = bytes[3] ?? 0;
  frame.flags = bytes[4] ?? 0;
  frame.streamId = bytes.readUInt32BE(5) & 0x7fffffff;
  return knownTypes.has(frame.type);
}

/** Where the fields begin in a HEADERS frame, behind the length of padding and the priority; and how many bytes of padding end it. */
export function fieldsOf(payload: Buffer, type: number, flags: number): Buffer {
  let start = 0;
  let padding = 0;
  if (type !== frameType.continuation && flags & frameFlag.padded) {
    padding = payload[0] ?? 0;
    start = 1;
  }
  if (type === frameType.headers && flags & frameFlag.priority) start += 5;
  if (type === frameType.pushPromise) start += 4;
  return payload.subarray(start, Math.max(start, payload.length - padding));
}

/**
 * Who sent a header block, by its first fields: requests begin with `:method` or another of their pseudo-headers, answers with `:status`. What was
 * added to the dynamic table before is passed over; null when nothing else is there. Same as http2_block_kind() in probes/http2-frame.h.
 */
export function isRequestBlock(fields: Buffer): boolean | null {
  for (let at = 0; at < Math.min(8, fields.length); at++) {
    let byte = fields[at] ?? 0;
    // Size updates come before the first field, in one byte or, usually, in three.
    if ((byte & 0xe0) === 0x20) {
      if (byte !== 0x3f) continue;
      byte = fields[at + 3] ?? 0;
    }
    const index = byte & 0x80 ? byte & 0x7f : byte & 0x40 ? byte & 0x3f : byte & 0x0f;
    if (index >= 1 && index <= 7) return true;
    if (index >= 8 && index <= 14) return false;
    if (index < 62 || index === 127 || (byte & 0x80) === 0) return null;
  }
  return null;
}

/** Whether a record's bytes were sent by who asks; `either` when it does not show. */
export function recogniseHttp2Record(bytes: Buffer): boolean | "either" {
  const frame: FrameRecord = { sequence: 0, type: 0, flags: 0, streamId: 0 };
  if (!readFrameRecord(bytes, frame)) return "either";
  if (frame.type === frameType.preface) return true;
  if (frame.type === frameType.pushPromise) return false;
  if (frame.type !== frameType.headers) return "either";
  return isRequestBlock(fieldsOf(bytes.subarray(frameHeaderBytes), frame.type, frame.flags)) ?? "either";
}
