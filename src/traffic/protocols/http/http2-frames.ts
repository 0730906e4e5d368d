/**
 * Frames of HTTP/2 as the kernel passes them on (probes/protocol/http2-record.h): only those that say something about requests, all of one payload in one record. A record
 * begins with a sequence number of its direction; each frame has a head of 12 bytes and as much of its payload as was taken.
 */

/** Of a frame on the wire. */
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

/** One frame of a record: `bytes` from `from` to `to` is what was taken of it. */
export interface ToldFrame {
  type: number;
  flags: number;
  streamId: number;
  /** Of its payload; of further bytes, theirs. */
  lengthBytes: number;
  from: number;
  to: number;
}

export const sequenceBytes = 4;
/** `struct http2_told`. */
export const toldBytes = 12;

/** Reads the frame at `at` into `frame`, and returns where the next one begins; -1 when there is none, or it is damaged. */
export function readToldFrame(bytes: Buffer, at: number, frame: ToldFrame): number {
  if (at + toldBytes > bytes.length) return -1;
  const taken = bytes.readUInt16LE(at + 2);
  frame.type = bytes[at] ?? 0;
  frame.flags = bytes[at + 1] ?? 0;
  frame.streamId = bytes.readUInt32LE(at + 4);
  frame.lengthBytes = bytes.readUInt32LE(at + 8);
  frame.from = at + toldBytes;
  frame.to = frame.from + taken;
  return frame.to > bytes.length ? -1 : frame.to;
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
