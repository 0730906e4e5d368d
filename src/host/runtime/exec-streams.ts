/** A bounded queue for the output of a program: a slow reader pauses the sender. */

export type OutputPiece = { stream: "stdout" | "stderr"; data: Uint8Array };

/** Buffered bytes before the sender is paused. */
const highWaterBytes = 1024 * 1024;

export class OutputQueue {
  #pieces: OutputPiece[] = [];
  #waitingBytes = 0;
  #isEnded = false;
  #error: Error | undefined;
  #wake: (() => void) | undefined;
  readonly #onRoom: () => void;

  /** `onRoom` is called when the sender may resume after `push` returned false. */
  constructor(onRoom: () => void) {
    this.#onRoom = onRoom;
  }

  /** False: pause the sender. */
  push(piece: OutputPiece): boolean {
    this.#pieces.push(piece);
    this.#waitingBytes += piece.data.length;
    this.#wake?.();
    return this.#waitingBytes < highWaterBytes;
  }

  end(error?: Error): void {
    if (this.#isEnded) return;
    this.#isEnded = true;
    this.#error = error;
    this.#wake?.();
  }

  async *read(): AsyncGenerator<OutputPiece> {
    for (;;) {
      const piece = this.#pieces.shift();
      if (piece !== undefined) {
        const wasFull = this.#waitingBytes >= highWaterBytes;
        this.#waitingBytes -= piece.data.length;
        if (wasFull && this.#waitingBytes < highWaterBytes) this.#onRoom();
        yield piece;
        continue;
      }
      if (this.#isEnded) {
        if (this.#error !== undefined) throw this.#error;
        return;
      }
      await new Promise<void>((resolve) => {
        this.#wake = resolve;
      });
      this.#wake = undefined;
    }
  }
}
