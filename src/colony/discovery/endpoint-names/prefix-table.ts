/**
 * Finds the range of an address. Building the table flattens nested ranges to sorted, non-overlapping intervals in typed arrays, so that a lookup is one
 * binary search.
 */

import { parseIpv4, parseIpv6 } from "../../../base/ip-parse.ts";
import type { FamilyRanges, RangeKind, RangeLabel, RangeList } from "../../../tools/index.ts";

/** Interval starts, ascending; an interval ends where the next one starts. Label 0 means no range, others are one above their index. */
interface Intervals {
  starts: Uint32Array;
  labels: Uint32Array;
}

const kindRanks: Readonly<Record<RangeKind, number>> = { provider: 0, compute: 1, service: 2 };

/** Immutable: build a new table to change ranges. */
export class PrefixTable {
  readonly #labels: readonly RangeLabel[];
  readonly #ipv4: Intervals;
  readonly #ipv6: Intervals;
  /** Number of ranges before flattening. */
  readonly prefixCount: number;

  /** Where ranges of several lists are equal, the later list wins. Takes about a second per million ranges and blocks the event loop. */
  constructor(lists: readonly RangeList[]) {
    this.#labels = lists.flatMap((list) => list.labels);
    const ranks = this.#labels.map(({ kind, region }) => kindRanks[kind] * 2 + (region === undefined ? 0 : 1));
    this.#ipv4 = flatten(joinFamilies(lists, "ipv4", 1), ranks);
    this.#ipv6 = flatten(joinFamilies(lists, "ipv6", 4), ranks);
    this.prefixCount = lists.reduce((sum, { ipv4, ipv6 }) => sum + ipv4.count + ipv6.count, 0);
  }

  /** Bytes of the intervals; the labels are shared with the lists. */
  get sizeBytes(): number {
    return [this.#ipv4, this.#ipv6].reduce((sum, { starts, labels }) => sum + starts.byteLength + labels.byteLength, 0);
  }

  /** Accepts every text form of an address; mapped IPv4 is looked up as IPv4. Undefined outside all ranges, and for anything but an address. */
  lookup(address: string): RangeLabel | undefined {
    const bits = parseIpv4(address);
    if (bits !== undefined) return this.#label(searchWord(this.#ipv4, bits));
    const words = parseIpv6(address);
    if (words === undefined) return undefined;
    const [a, b, c, d] = words;
    if (a === 0 && b === 0 && c === 0xffff) return this.#label(searchWord(this.#ipv4, d));
    return this.#label(searchWords(this.#ipv6, a, b, c, d));
  }

  #label(label: number): RangeLabel | undefined {
    return label === 0 ? undefined : this.#labels[label - 1];
  }
}

function searchWord({ starts, labels }: Intervals, bits: number): number {
  let low = 0;
  let high = labels.length;
  while (low < high) {
    const middle = (low + high) >>> 1;
    if ((starts[middle] as number) <= bits) low = middle + 1;
    else high = middle;
  }
  return low === 0 ? 0 : (labels[low - 1] as number);
}

function searchWords({ starts, labels }: Intervals, a: number, b: number, c: number, d: number): number {
  let low = 0;
  let high = labels.length;
  while (low < high) {
    const middle = (low + high) >>> 1;
    const at = middle * 4;
    const order =
      (starts[at] as number) - a || (starts[at + 1] as number) - b || (starts[at + 2] as number) - c || (starts[at + 3] as number) - d;
    if (order <= 0) low = middle + 1;
    else high = middle;
  }
  return low === 0 ? 0 : (labels[low - 1] as number);
}

function joinFamilies(lists: readonly RangeList[], family: "ipv4" | "ipv6", wordsPerAddress: 1 | 4): FamilyRanges {
  const count = lists.reduce((sum, list) => sum + list[family].count, 0);
  const joined: FamilyRanges = {
    wordsPerAddress,
    count,
    words: new Uint32Array(count * wordsPerAddress),
    lengths: new Uint8Array(count),
    labels: new Uint32Array(count),
  };
  let at = 0;
  let labelsBefore = 0;
  for (const list of lists) {
    const ranges = list[family];
    joined.words.set(ranges.words, at * wordsPerAddress);
    joined.lengths.set(ranges.lengths, at);
    for (let index = 0; index < ranges.count; index++) joined.labels[at + index] = (ranges.labels[index] as number) + labelsBefore;
    at += ranges.count;
    labelsBefore += list.labels.length;
  }
  return joined;
}

/** Ranges nest or are disjoint, never overlap partly, so a stack of open ranges is enough. */
function flatten(ranges: FamilyRanges, ranks: readonly number[]): Intervals {
  const { wordsPerAddress: width, words, lengths, labels } = ranges;
  const out = new IntervalWriter(width, ranges.count);
  const ends: Uint32Array[] = [];
  const open: number[] = [];
  const start = new Uint32Array(width);
  const closeUntil = (next: Uint32Array | undefined): void => {
    for (let end = ends.at(-1); end && (next === undefined || compare(end, next) < 0); end = ends.at(-1)) {
      ends.pop();
      open.pop();
      if (increment(end)) out.write(end, open.at(-1) ?? 0);
    }
  };
  for (const index of sortedIndexes(ranges, ranks)) {
    start.set(words.subarray(index * width, (index + 1) * width));
    closeUntil(start);
    const outer = open.at(-1) ?? 0;
    const inner = (labels[index] as number) + 1;
    // A range that only names the provider must not hide the product range around it.
    const hides = outer !== 0 && (ranks[inner - 1] ?? 0) < 2 && (ranks[outer - 1] ?? 0) >= 2;
    const label = hides ? outer : inner;
    ends.push(endOf(start, lengths[index] as number));
    open.push(label);
    out.write(start, label);
  }
  closeUntil(undefined);
  return out.finish();
}

/** By start, wider first; of equal ranges the most specific last, so that it wins. */
function sortedIndexes({ wordsPerAddress: width, words, lengths, labels, count }: FamilyRanges, ranks: readonly number[]): Uint32Array {
  const rankOf = (index: number): number => ranks[labels[index] as number] ?? 0;
  return Uint32Array.from({ length: count }, (_, index) => index).sort((left, right) => {
    for (let word = 0; word < width; word++) {
      const order = (words[left * width + word] as number) - (words[right * width + word] as number);
      if (order !== 0) return order;
    }
    return (lengths[left] as number) - (lengths[right] as number) || rankOf(left) - rankOf(right) || left - right;
  });
}

class IntervalWriter {
  readonly #width: number;
  readonly #starts: Uint32Array;
  readonly #labels: Uint32Array;
  #count = 0;

  constructor(width: number, rangeCount: number) {
    this.#width = width;
    this.#starts = new Uint32Array((rangeCount * 2 + 1) * width);
    this.#labels = new Uint32Array(rangeCount * 2 + 1);
  }

  /** `label` applies from `start` until the next call. Starts never decrease. */
  write(start: Uint32Array, label: number): void {
    if (this.#count > 0 && compare(this.#starts.subarray((this.#count - 1) * this.#width, this.#count * this.#width), start) === 0)
      this.#count--;
    if ((this.#count === 0 ? 0 : this.#labels[this.#count - 1]) === label) return;
    this.#starts.set(start, this.#count * this.#width);
    this.#labels[this.#count++] = label;
  }

  finish(): Intervals {
    return { starts: this.#starts.slice(0, this.#count * this.#width), labels: this.#labels.slice(0, this.#count) };
  }
}

function compare(left: Uint32Array, right: Uint32Array): number {
  for (let word = 0; word < left.length; word++) {
    const order = (left[word] as number) - (right[word] as number);
    if (order !== 0) return order;
  }
  return 0;
}

/** The last address of a range. */
function endOf(start: Uint32Array, length: number): Uint32Array {
  return start.map((word, index) => {
    const kept = Math.min(Math.max(length - index * 32, 0), 32);
    return kept === 32 ? word : (word | (0xffffffff >>> kept)) >>> 0;
  });
}

/** Adds one in place; false on overflow of the address space. */
function increment(words: Uint32Array): boolean {
  for (let word = words.length - 1; word >= 0; word--) {
    words[word] = (words[word] as number) + 1;
    if (words[word] !== 0) return true;
  }
  return false;
}
