/**
 * Splits one direction of a connection into length-prefixed frames. Payloads may be truncated. The end of a frame is still known, unless its header is
 * in the missing bytes; then the stream is lost until a payload looks like the start of a frame.
 */

import type { Chunk } from "../core/protocol-decoder.ts";

export interface FrameRules {
  /** Bytes needed to read a frame's length. At most 32. */
  headerBytes: number;
  /** The length of the frame with its header; 0 if this cannot be a frame. Called with at least `headerBytes` bytes after `at`. */
  frameLength(bytes: Buffer, at: number): number;
  /** Whether a payload starts a frame; called after a loss, when it may be the middle of one. Default: if it has a valid length. */
  isBeginning?(bytes: Buffer): boolean;
  /** Most bytes kept of a frame that spans several payloads. Default 512. */
  maxHeadBytes?: number;
}

/** Called when a frame's last byte has passed. `bytes` from `from` to `to` is its captured head with the header; valid during the call. */
export type OnFrame = (bytes: Buffer, from: number, to: number, frame: FrameTimes) => void;

export interface FrameTimes {
  lengthBytes: number;
  /** Of the payload with the frame's first byte. */
  atNs: number;
  startNs: number;
  lastAtNs: number;
}

export class FramedStream {
  readonly #rules: FrameRules;
  readonly #maxHeadBytes: number;
  readonly #onFrame: OnFrame;
  readonly #onLost: (chunk: Chunk) => void;
  readonly #times: FrameTimes = { lengthBytes: 0, atNs: 0, startNs: 0, lastAtNs: 0 };
  #held: Buffer | null = null;
  #heldBytes = 0;
  #isHeadOpen = false;
  /** Length of the current frame; -1 while its header is incomplete. */
  #lengthBytes = 0;
  #seenBytes = 0;
  #isLost = false;

  /** `onLost` is called once per loss, not for each payload after it. */
  constructor(rules: FrameRules, onFrame: OnFrame, onLost: (chunk: Chunk) => void) {
    this.#rules = rules;
    this.#maxHeadBytes = Math.max(rules.maxHeadBytes ?? 512, rules.headerBytes);
    this.#onFrame = onFrame;
    this.#onLost = onLost;
  }

  get isLost(): boolean {
    return this.#isLost;
  }

  /** Whether a frame is incomplete. */
  get isInFrame(): boolean {
    return this.#seenBytes > 0;
  }

  /** Drops the incomplete frame; the next payload is expected to start a new one. */
  reset(): void {
    this.#seenBytes = 0;
    this.#isLost = false;
  }

  /** Payloads were lost: the next one may start anywhere. Unlike a loss that is detected here, it does not call `onLost`. */
  lose(): void {
    this.#seenBytes = 0;
    this.#isLost = true;
  }

  push(chunk: Chunk): void {
    const { bytes } = chunk;
    if (this.#isLost) {
      if (bytes.length < this.#rules.headerBytes || this.#rules.frameLength(bytes, 0) === 0) return;
      if (this.#rules.isBeginning?.(bytes) === false) return;
      this.#isLost = false;
    }
    let at = 0;
    if (this.#seenBytes > 0) {
      at = this.#continue(chunk);
      if (at < 0) return;
    }
    while (at < bytes.length) {
      const left = bytes.length - at;
      const length = left < this.#rules.headerBytes ? -1 : this.#rules.frameLength(bytes, at);
      if (length === 0) {
        this.#lose(chunk);
        return;
      }
      if (length < 0 || length > left) {
        this.#hold(chunk, at, length);
        break;
      }
      this.#emit(bytes, at, at + length, length, chunk, true);
      at += length;
    }
    const missingBytes = chunk.fullLength - bytes.length;
    if (missingBytes > 0) this.#skip(missingBytes, chunk);
  }

  /** Adds to the current frame. Returns where the next one starts, or -1 when the stream is lost. */
  #continue(chunk: Chunk): number {
    const { bytes } = chunk;
    let at = 0;
    if (this.#lengthBytes < 0) {
      at = Math.min(this.#rules.headerBytes - this.#seenBytes, bytes.length);
      this.#append(bytes, 0, at);
      this.#seenBytes += at;
      if (this.#seenBytes < this.#rules.headerBytes) return at;
      this.#lengthBytes = this.#held === null ? 0 : this.#rules.frameLength(this.#held, 0);
      if (this.#lengthBytes === 0) {
        this.#lose(chunk);
        return -1;
      }
    }
    const taken = Math.min(this.#lengthBytes - this.#seenBytes, bytes.length - at);
    this.#append(bytes, at, at + taken);
    this.#seenBytes += taken;
    if (this.#seenBytes >= this.#lengthBytes) this.#emitHeld(chunk);
    return at + taken;
  }

  #skip(missingBytes: number, chunk: Chunk): void {
    const leftBytes = this.#seenBytes > 0 && this.#lengthBytes > 0 ? this.#lengthBytes - this.#seenBytes : 0;
    this.#isHeadOpen = false;
    if (leftBytes > missingBytes) {
      this.#seenBytes += missingBytes;
      return;
    }
    if (leftBytes > 0) this.#emitHeld(chunk);
    if (leftBytes < missingBytes) this.#lose(chunk);
  }

  #hold(chunk: Chunk, at: number, length: number): void {
    this.#times.atNs = chunk.atNs;
    this.#times.startNs = chunk.startNs;
    this.#heldBytes = 0;
    this.#isHeadOpen = true;
    this.#lengthBytes = length;
    this.#append(chunk.bytes, at, chunk.bytes.length);
    this.#seenBytes = chunk.bytes.length - at;
  }

  #append(bytes: Buffer, from: number, to: number): void {
    const count = Math.min(to - from, this.#maxHeadBytes - this.#heldBytes);
    if (!this.#isHeadOpen || count <= 0) return;
    this.#held ??= Buffer.allocUnsafeSlow(this.#maxHeadBytes);
    bytes.copy(this.#held, this.#heldBytes, from, from + count);
    this.#heldBytes += count;
  }

  #emitHeld(chunk: Chunk): void {
    this.#seenBytes = 0;
    if (this.#held !== null) this.#emit(this.#held, 0, this.#heldBytes, this.#lengthBytes, chunk, false);
  }

  #emit(bytes: Buffer, from: number, to: number, length: number, chunk: Chunk, isWhole: boolean): void {
    const times = this.#times;
    times.lengthBytes = length;
    times.lastAtNs = chunk.atNs;
    if (isWhole) {
      times.atNs = chunk.atNs;
      times.startNs = chunk.startNs;
    }
    this.#onFrame(bytes, from, to, times);
  }

  #lose(chunk: Chunk): void {
    this.#seenBytes = 0;
    this.#isLost = true;
    this.#onLost(chunk);
  }
}
