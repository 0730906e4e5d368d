/** Counts a command's output, delivers it in chunks, and truncates it at the output limit. */

import { BoundedChannel } from "../../base/bounded-channel.ts";
import type { CommandOutput } from "./running-command.ts";

/** Chunks of at most 64 KiB queued for a slow reader; when full, the command blocks. */
const maxWaiting = 16;
/** Of a merged chunk. */
const maxPieceBytes = 256 * 1024;

/** Both streams share one queue and one limit. */
export class OutputMeter {
  stdoutBytes = 0;
  stderrBytes = 0;
  readonly #channel = new BoundedChannel<CommandOutput>(maxWaiting);
  readonly #maxBytes: number;
  readonly #onLimit: () => void;
  #isDrained = false;

  constructor(maxBytes: number | undefined, onLimit: () => void) {
    this.#maxBytes = maxBytes ?? Number.POSITIVE_INFINITY;
    this.#onLimit = onLimit;
  }

  /** Queued chunks are merged while the reader is busy: each delivery costs the same, regardless of its size. */
  async *[Symbol.asyncIterator](): AsyncGenerator<CommandOutput> {
    for await (const first of this.#channel) {
      let sizeBytes = first.data.byteLength;
      const more = this.#channel.takeWhile(({ stream, data }) => {
        sizeBytes += data.byteLength;
        return stream === first.stream && sizeBytes <= maxPieceBytes;
      });
      yield more.length === 0 ? first : { stream: first.stream, data: Buffer.concat([first, ...more].map((piece) => piece.data)) };
    }
  }

  /** Discards further output, but counts it. */
  drain(): void {
    this.#isDrained = true;
    this.#channel.end();
  }

  end(): void {
    this.#channel.end();
  }

  /** Resolves when the next chunk can be queued; false if no more output is wanted. */
  async take(stream: CommandOutput["stream"], data: Uint8Array): Promise<boolean> {
    const left = this.#maxBytes - this.stdoutBytes - this.stderrBytes;
    const piece = data.byteLength > left ? data.subarray(0, Math.max(0, left)) : data;
    if (stream === "stdout") this.stdoutBytes += piece.byteLength;
    else this.stderrBytes += piece.byteLength;
    if (piece.byteLength > 0 && !this.#isDrained) await this.#channel.put({ stream, data: piece });
    if (piece.byteLength === data.byteLength) return true;
    this.#onLimit();
    return false;
  }
}
