/** Assembles and decodes the header blocks of one direction of an HTTP/2 connection, from frames and pieces of frames. */

import { type FieldVisitor, HpackDecoder, type HpackDecoderOptions } from "./hpack.ts";
import { type FrameEntry, fieldsOf, frameFlag, frameHeaderBytes, frameType } from "./http2-frames.ts";

/** Longest block that is assembled; a longer one is read up to here. */
const maxBlockBytes = 65_536;

export interface OpenBlock {
  streamId: number;
  /** Of PUSH_PROMISE: the promised stream. */
  promisedId: number;
  isEndOfStream: boolean;
  /** Bytes of its frames, including their headers. */
  wireBytes: number;
  atNs: number;
  startNs: number;
}

export type OnBlock = (block: OpenBlock, read: (visit: FieldVisitor) => void) => void;

export class HeaderBlocks {
  readonly #decoder: HpackDecoder;
  readonly #onBlock: OnBlock;
  #block: OpenBlock | null = null;
  #fields: Buffer[] = [];
  #fieldBytes = 0;
  /** The current frame. */
  #frame: Buffer[] = [];
  #frameBytes = 0;
  #frameLength = 0;
  #frameType = 0;
  #frameFlags = 0;

  constructor(options: HpackDecoderOptions, onBlock: OnBlock) {
    this.#decoder = new HpackDecoder(options);
    this.#onBlock = onBlock;
  }

  get isOpen(): boolean {
    return this.#block !== null;
  }

  /** Records were lost: decodes the incomplete block as far as possible, and clears the table. */
  lose(): void {
    if (this.#block !== null) this.#finish(false);
    this.#decoder.forget();
  }

  /** HEADERS, PUSH_PROMISE, CONTINUATION and pieces of them; the bytes of the frame are those of the record. */
  push(frame: FrameEntry, bytes: Buffer, atNs: number, startNs: number): void {
    if (frame.type === frameType.more) {
      if (this.#block !== null && this.#block.streamId === frame.streamId) this.#append(bytes.subarray(frame.from, frame.to));
      return;
    }
    const wireBytes = frameHeaderBytes + frame.lengthBytes;
    const isEndOfStream = frame.type === frameType.headers && (frame.flags & frameFlag.endStream) !== 0;
    if (this.#block === null && isAlone(frame)) {
      const { from, to } = frame;
      this.#onBlock({ streamId: frame.streamId, promisedId: 0, isEndOfStream, wireBytes, atNs, startNs }, (visit) => {
        this.#decoder.decode(bytes, visit, from, to);
      });
      return;
    }
    const isContinuation = frame.type === frameType.continuation;
    if (isContinuation !== (this.#block !== null)) this.lose();
    if (isContinuation && this.#block === null) return;
    this.#block ??= { streamId: frame.streamId, promisedId: 0, isEndOfStream, wireBytes: 0, atNs, startNs };
    this.#block.wireBytes += wireBytes;
    this.#frame = [];
    this.#frameBytes = 0;
    this.#frameLength = frame.lengthBytes;
    this.#frameType = frame.type;
    this.#frameFlags = frame.flags;
    this.#append(bytes.subarray(frame.from, frame.to));
  }

  #append(payload: Buffer): void {
    if (this.#fieldBytes + this.#frameBytes + payload.length > maxBlockBytes) {
      this.lose();
      return;
    }
    this.#frameBytes += payload.length;
    const isWhole = this.#frameBytes >= this.#frameLength;
    // The bytes are in the ring, so copy what is kept.
    this.#frame.push(isWhole && this.#frame.length === 0 && this.#frameFlags & frameFlag.endHeaders ? payload : Buffer.from(payload));
    if (isWhole) this.#endFrame();
  }

  #endFrame(): void {
    const [first] = this.#frame;
    const payload = this.#frame.length === 1 && first !== undefined ? first : Buffer.concat(this.#frame);
    if (this.#frameType === frameType.pushPromise && this.#block !== null) {
      const start = this.#frameFlags & frameFlag.padded ? 1 : 0;
      this.#block.promisedId = payload.length >= start + 4 ? payload.readUInt32BE(start) & 0x7fffffff : 0;
    }
    const fields = fieldsOf(payload, this.#frameType, this.#frameFlags);
    this.#fields.push(fields);
    this.#fieldBytes += fields.length;
    this.#frame = [];
    if (this.#frameFlags & frameFlag.endHeaders) this.#finish(true);
  }

  #finish(isWhole: boolean): void {
    const block = this.#block;
    // In a truncated frame, padding cannot be distinguished from fields; the captured bytes are fields.
    if (!isWhole && this.#frame.length > 0) {
      const payload = Buffer.concat(this.#frame);
      this.#fields.push(fieldsOf(payload, this.#frameType, this.#frameFlags & frameFlag.padded ? 0 : this.#frameFlags));
    }
    const [first] = this.#fields;
    const fields = this.#fields.length === 1 && first !== undefined ? first : Buffer.concat(this.#fields);
    this.#block = null;
    this.#fields = [];
    this.#frame = [];
    this.#fieldBytes = 0;
    this.#frameBytes = 0;
    if (block === null) return;
    this.#onBlock(block, (visit) => {
      this.#decoder.decode(fields, visit);
    });
    if (!isWhole) this.#decoder.forget();
  }
}

/** True for nearly all: HEADERS in one piece, with only fields. */
function isAlone({ type, flags, lengthBytes, from, to }: FrameEntry): boolean {
  const { endHeaders, padded, priority } = frameFlag;
  return type === frameType.headers && (flags & (endHeaders | padded | priority)) === endHeaders && to - from >= lengthBytes;
}
