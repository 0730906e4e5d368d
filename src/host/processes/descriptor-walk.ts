/** The order in which the descriptors of one process are read: from the fourth on, the three standard streams last. */

/** stdin, stdout and stderr are sockets only in programs started by inetd and the like. */
const standardStreams = 3;
/** Missing numbers tried before all descriptors are listed: a miss costs about as much as listing twenty. */
const maxGaps = 2;

export class DescriptorWalk {
  /** Null while the numbers are assumed to be contiguous from 0, which saves listing them. */
  #numbers: readonly number[] | null;
  #count: number;
  #gaps = 0;
  #next = 0;

  private constructor(numbers: readonly number[] | null, count: number) {
    this.#numbers = numbers;
    this.#count = count;
  }

  /** A walk over this many descriptors, assumed to be contiguous. */
  static counted(count: number): DescriptorWalk {
    return new DescriptorWalk(null, count);
  }

  static listed(numbers: readonly number[]): DescriptorWalk {
    return new DescriptorWalk(standardStreamsLast(numbers), numbers.length);
  }

  /** How many are still to be read. */
  get left(): number {
    return this.#count - this.#next;
  }

  get current(): number {
    return this.#numbers ? (this.#numbers[this.#next] ?? 0) : numberWithoutGaps(this.#next, this.#count);
  }

  advance(): void {
    this.#next++;
  }

  /** The current number does not exist. True when that shows a gap, false when it was closed since the listing. `list` gives all numbers. */
  skipGap(list: () => readonly number[]): boolean {
    if (this.#numbers) return false;
    if (this.#gaps < maxGaps) {
      // One number is missing, so there is one more at the end.
      this.#gaps++;
      this.#count++;
      return true;
    }
    // Too many are missing: list them; the ones before were read.
    const missing = this.current;
    this.#numbers = standardStreamsLast(list()).filter((number) => number > missing || number < standardStreams);
    this.#count = this.#numbers.length;
    this.#next = -1;
    return true;
  }
}

function numberWithoutGaps(index: number, count: number): number {
  const number = index + standardStreams;
  return number < count ? number : count > standardStreams ? number - count : index;
}

function standardStreamsLast(numbers: readonly number[]): number[] {
  return [...numbers.filter((number) => number >= standardStreams), ...numbers.filter((number) => number < standardStreams)];
}
