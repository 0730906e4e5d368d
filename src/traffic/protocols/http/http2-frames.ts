/**
 * Frames of HTTP/2 as the kernel emits them (probes/protocol/http2-record.h): only frames that matter for requests, all those of one payload in one
 * record. A record starts with the sequence number of its direction; each entry has a head of 12 bytes and the captured part of the payload.
 */

/** Length of a frame header on the wire. */
export const frameHeaderBytes = 9;

export const frameType = {
  /** One or several consecutive DATA frames of a stream; only the last has END_STREAM. */
  data: 0,
  headers: 1,
  reset: 3,
  pushPromise: 5,
  goAway: 7,
  continuation: 9,
  /** Not in the standard: further bytes of the preceding HEADERS, PUSH_PROMISE or CONTINUATION frame. */
  more: 0xf0,
  /** Not in the standard: the connection preface, before which there was nothing. */
  preface: 0xf1,
} as const;

export const frameFlag = { endStream: 1, endHeaders: 4, padded: 8, priority: 0x20 } as const;

/** One frame of a record: `bytes` from `from` to `to` is its captured part. */
export interface FrameEntry {
  type: number;
  flags: number;
  streamId: number;
  /** Length of the payload; for further bytes, their own. */
  lengthBytes: number;
  from: number;
  to: number;
}

export const sequenceBytes = 4;
/** `struct http2_entry`. */
export const entryBytes = 12;

/** Reads the frame at `at` into `frame`, and returns the offset of the next one; -1 if there is none, or it is invalid. */
export function readFrameEntry(bytes: Buffer, at: number, frame: FrameEntry): number {
  if (at + entryBytes > bytes.length) return -1;
  const taken = bytes.readUInt16LE(at + 2);
  frame.type = bytes[at] ?? 0;
  frame.flags = bytes[at + 1] ?? 0;
  frame.streamId = bytes.readUInt32LE(at + 4);
  frame.lengthBytes = bytes.readUInt32LE(at + 8);
  frame.from = at + entryBytes;
  frame.to = frame.from + taken;
  return frame.to > bytes.length ? -1 : frame.to;
}

/** Where the fields of a HEADERS frame start, after padding length and priority; and how many bytes of padding end it. */
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
