/** Emulates probes/protocol/http2.h for tests without a kernel: splits the bytes of one direction into the records that the decoder gets. */

import type { Chunk } from "../../core/protocol-decoder.ts";
import { entryBytes, frameFlag, frameType, sequenceBytes } from "./http2-frames.ts";

const preface = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

export class FrameWalk {
  readonly #onRecord: (chunk: Chunk) => void;
  readonly #pieceBytes: number;
  #rest = Buffer.alloc(0);
  #sequence = 0;
  #isStart: boolean;
  #data = { streamId: 0, bytes: 0 };
  #entries: Buffer[] = [];

  /** `pieceBytes`: most bytes of a header block in one record. */
  constructor(onRecord: (chunk: Chunk) => void, { isJoinedMidway = false, pieceBytes = 4096 } = {}) {
    this.#onRecord = onRecord;
    this.#isStart = !isJoinedMidway;
    this.#pieceBytes = pieceBytes;
  }

  push(bytes: Buffer, atNs: number, startNs = 0): void {
    this.#rest = Buffer.concat([this.#rest, bytes]);
    if (this.#isStart && this.#rest.length >= preface.length) {
      this.#isStart = false;
      if (this.#rest.toString("latin1", 0, preface.length) === preface) {
        this.#rest = this.#rest.subarray(preface.length);
        this.#emit(frameType.preface, 0, 0, Buffer.alloc(0), 0);
      }
    }
    while (!this.#isStart && this.#rest.length >= 9) {
      const length = this.#rest.readUIntBE(0, 3);
      if (this.#rest.length < 9 + length) break;
      this.#walk(this.#rest.subarray(0, 9 + length));
      this.#rest = this.#rest.subarray(9 + length);
    }
    if (this.#entries.length === 0) return;
    const sequence = Buffer.alloc(sequenceBytes);
    sequence.writeUInt32LE(this.#sequence++);
    const record = Buffer.concat([sequence, ...this.#entries.splice(0)]);
    this.#onRecord({ bytes: record, fullLength: record.length, atNs, startNs });
  }

  #walk(frame: Buffer): void {
    const type = frame[3] ?? 0;
    const flags = frame[4] ?? 0;
    const streamId = frame.readUInt32BE(5) & 0x7fffffff;
    const payload = frame.subarray(9);
    if (type === frameType.data) {
      if (this.#data.streamId !== streamId) this.#flush();
      this.#data = { streamId, bytes: this.#data.bytes + payload.length };
      if (flags & frameFlag.endStream) this.#flush(frameFlag.endStream);
      return;
    }
    if (type === frameType.headers || type === frameType.continuation || type === frameType.pushPromise) {
      this.#flush();
      for (let at = 0; at === 0 || at < payload.length; at += this.#pieceBytes) {
        const piece = payload.subarray(at, at + this.#pieceBytes);
        this.#emit(at === 0 ? type : frameType.more, flags, streamId, piece, at === 0 ? payload.length : piece.length);
      }
    } else if (type === frameType.reset || type === frameType.goAway) {
      this.#flush();
      this.#emit(type, flags, streamId, payload.subarray(0, 8), payload.length);
    }
  }

  #flush(flags = 0): void {
    if (this.#data.streamId === 0) return;
    this.#emit(frameType.data, flags, this.#data.streamId, Buffer.alloc(0), this.#data.bytes);
    this.#data = { streamId: 0, bytes: 0 };
  }

  #emit(type: number, flags: number, streamId: number, taken: Buffer, length: number): void {
    const head = Buffer.alloc(entryBytes);
    head[0] = type;
    head[1] = flags;
    head.writeUInt16LE(taken.length, 2);
    head.writeUInt32LE(streamId, 4);
    head.writeUInt32LE(length, 8);
    this.#entries.push(head, taken);
  }
}
