/** Splits the bytes of a growing file into records: a line with the lines that belong to it, such as a stack trace. Bytes may arrive in any chunks. */

import { continuesRecord, mayBeUnfinished } from "./continues-record.ts";
import { LineSplitter, type SplitLine } from "./line-splitter.ts";

/** A longer trace is split into several records. */
const maxRecordCharacters = 64 * 1024;

export class RecordSplitter {
  readonly #lines: LineSplitter;
  /** A record that may continue. */
  #held: SplitLine | undefined;

  constructor(options: { maxLineBytes: number; startsInside?: boolean }) {
    this.#lines = new LineSplitter(options);
  }

  /** Bytes not emitted yet: from the start of the record that may continue, or of the incomplete line. */
  get pendingBytes(): number {
    return this.#held === undefined ? this.#lines.pendingBytes : this.#lines.passedBytes - this.#held.startBytes;
  }

  /** Whether the last line is incomplete. */
  get isInsideLine(): boolean {
    return this.#lines.pendingBytes > 0;
  }

  push(chunk: Buffer): SplitLine[] {
    const records = this.#join(this.#lines.push(chunk));
    // Other records need not wait for the next line.
    if (this.#held !== undefined && !mayBeUnfinished(this.#held.text)) records.push(...this.#release());
    return records;
  }

  /** Emits everything, for writers that do not terminate their last line. */
  flush(): SplitLine[] {
    return [...this.#join(this.#lines.flush()), ...this.#release()];
  }

  /** Lines truncated and lines skipped since the last call. */
  takeCounts(): { cutLines: number; binaryLines: number } {
    const { cutLines, binaryLines } = this.#lines;
    this.#lines.cutLines = 0;
    this.#lines.binaryLines = 0;
    return { cutLines, binaryLines };
  }

  #join(lines: readonly SplitLine[]): SplitLine[] {
    const records: SplitLine[] = [];
    for (const line of lines) {
      const held = this.#held;
      if (held !== undefined && continuesRecord(held.text, line.text) && held.text.length + line.text.length < maxRecordCharacters) {
        this.#held = { ...held, text: `${held.text}\n${line.text}`, isCut: held.isCut || line.isCut };
      } else {
        records.push(...this.#release());
        this.#held = line;
      }
    }
    return records;
  }

  #release(): SplitLine[] {
    const held = this.#held;
    this.#held = undefined;
    return held === undefined ? [] : [held];
  }
}
