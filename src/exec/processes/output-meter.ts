/** Counts what a command writes, hands it over piece by piece, and cuts it where its bound is. */

import { BoundedChannel } from "../../base/bounded-channel.ts";
import type { CommandOutput } from "./running-command.ts";

/** Pieces of at most 64 KiB that wait for a slow reader; then the command waits. */
const maxWaiting = 16;
const maxPieceBytes = 256 * 1024;

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

  /** What waits while the reader is busy is handed over in one piece: each costs the same on its way, whatever its size. */
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

  /** From now on it is counted and dropped. */
  drain(): void {
    this.#isDrained = true;
    this.#channel.end();
  }

  end(): void {
    this.#channel.end();
  }

  /** Resolves when the next piece can be taken; false when nothing more is wanted. */
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
