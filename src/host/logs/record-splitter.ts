/** Bytes of a growing file into records: lines with those that belong to them, such as a stack trace, however the bytes arrive. */

import { continuesRecord, mayBeUnfinished } from "./continues-record.ts";
import { LineSplitter, type SplitLine } from "./line-splitter.ts";

/** A trace is cut into several records beyond this. */
const maxRecordCharacters = 64 * 1024;

export class RecordSplitter {
  readonly #lines: LineSplitter;
  /** A record that may go on. */
  #held: SplitLine | undefined;

  constructor(options: { maxLineBytes: number; startsInside?: boolean }) {
    this.#lines = new LineSplitter(options);
  }

  /** Bytes that were not given yet: from the start of a record that may go on, or of the line that has no end. */
  get pendingBytes(): number {
    return this.#held === undefined ? this.#lines.pendingBytes : this.#lines.passedBytes - this.#held.startBytes;
  }

  /** Whether a line has begun whose end was not written. */
  get isInsideLine(): boolean {
    return this.#lines.pendingBytes > 0;
  }

  push(chunk: Buffer): SplitLine[] {
    const records = this.#join(this.#lines.push(chunk));
    // Others need not wait for the next line.
    if (this.#held !== undefined && !mayBeUnfinished(this.#held.text)) records.push(...this.#release());
    return records;
  }

  /** All that there is, for a writer that does not end its last line. */
  flush(): SplitLine[] {
    return [...this.#join(this.#lines.flush()), ...this.#release()];
  }

  /** Lines that were cut and left out since the last call. */
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
