/** Splits the bytes of a growing file into lines: partial lines are kept until complete, long ones truncated, binary ones dropped and counted. */

export interface SplitLine {
  text: string;
  /** True if the line was truncated. */
  isCut: boolean;
  /** Start of the line, counted from the first byte that the splitter received. */
  startBytes: number;
}

const newline = 0x0a;
/** Share of invalid UTF-8 above which a line counts as binary. */
const maxBrokenShare = 0.3;
/** Terminal colours: ESC, bracket, numbers, m. */
const colours = /\p{Cc}\[[0-9;]*m/gu;

export class LineSplitter {
  readonly #maxLineBytes: number;
  #pending: Buffer[] = [];
  #pendingBytes = 0;
  /** Start of the incomplete line. */
  #startBytes = 0;
  /** All bytes so far. */
  passedBytes = 0;
  /** Skips to the next line end. */
  #isSkipping: boolean;
  cutLines = 0;
  binaryLines = 0;

  constructor(options: { maxLineBytes: number; startsInside?: boolean }) {
    this.#maxLineBytes = options.maxLineBytes;
    this.#isSkipping = options.startsInside ?? false;
  }

  /** Bytes of the incomplete line. */
  get pendingBytes(): number {
    return this.#pendingBytes;
  }

  push(chunk: Buffer): SplitLine[] {
    const lines: SplitLine[] = [];
    const beforeBytes = this.passedBytes;
    this.passedBytes += chunk.length;
    let from = 0;
    while (from < chunk.length) {
      const end = chunk.indexOf(newline, from);
      if (end < 0) {
        this.#hold(chunk.subarray(from), lines);
        break;
      }
      if (this.#isSkipping) this.#isSkipping = false;
      else {
        this.#hold(chunk.subarray(from, end), lines);
        // A line that was too long has already been reported.
        if (this.#isSkipping) this.#isSkipping = false;
        else this.#emit(lines, false);
      }
      from = end + 1;
      this.#startBytes = beforeBytes + from;
    }
    return lines;
  }

  /** The incomplete line, for writers that do not terminate their last one. */
  flush(): SplitLine[] {
    const lines: SplitLine[] = [];
    if (this.#pendingBytes > 0) this.#emit(lines, false);
    this.#startBytes = this.passedBytes;
    return lines;
  }

  #hold(part: Buffer, lines: SplitLine[]): void {
    if (this.#isSkipping || part.length === 0) return;
    const room = this.#maxLineBytes - this.#pendingBytes;
    // A copy: the chunk's memory is reused.
    this.#pending.push(Buffer.from(part.subarray(0, room)));
    this.#pendingBytes += Math.min(room, part.length);
    if (part.length <= room) return;
    this.cutLines++;
    this.#emit(lines, true);
    this.#isSkipping = true;
  }

  #emit(lines: SplitLine[], isCut: boolean): void {
    const bytes = this.#pending.length === 1 ? this.#pending[0] : Buffer.concat(this.#pending);
    this.#pending = [];
    this.#pendingBytes = 0;
    if (bytes === undefined) return;
    const text = textOf(bytes);
    if (text === undefined) this.binaryLines++;
    else if (text.trim() !== "") lines.push({ text, isCut, startBytes: this.#startBytes });
  }
}

function textOf(bytes: Buffer): string | undefined {
  if (bytes.includes(0)) return undefined;
  const text = bytes.toString("utf8");
  const broken = text.split("\ufffd").length - 1;
  if (broken > 0 && broken > text.length * maxBrokenShare) return undefined;
  return text.replace(/\r$/, "").replace(colours, "");
}
