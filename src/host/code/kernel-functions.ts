/**
 * Names of kernel functions by address, from `/proc/kallsyms`: 5 MB of text and 150,000 functions. Parsed byte by byte into typed arrays: objects
 * and strings would create tens of megabytes of garbage.
 */

import { createHostRoot, type HostRoot } from "../files/host-root.ts";

export interface KernelFunctions {
  readonly count: number;
  /** The function at an address, given without its upper 16 bits, which are all ones in the kernel. Null for an unknown address. */
  nameOf(address: number): string | null;
}

const maxFunctions = 1_000_000;
const maxNameBytes = 128;
/** Upper limit for the size of a function, for addresses after the last function of a module. */
const maxFunctionBytes = 256 * 1024;
/** Positions in a line: `ffffffff81000000 T _text`, with `\t[module]` for modules. */
const at = { low: 4, type: 17, name: 19 } as const;
const functionTypes: ReadonlySet<number> = new Set(Buffer.from("tTwW"));
const [newline, blank, tab, letterF] = [10, 32, 9, 102];
const firstFunctions = 2 ** 17;
const firstNameBytes = 2 ** 21;

/** Null when the kernel hides its addresses from this process. */
export function readKernelFunctions(root: HostRoot = createHostRoot()): KernelFunctions | null {
  const list = new FunctionList();
  let rest: Buffer = Buffer.alloc(0);
  const isRead = root.readPieces("/proc/kallsyms", (piece) => {
    const bytes = rest.length === 0 ? piece : Buffer.concat([rest, piece]);
    let start = 0;
    for (let end = bytes.indexOf(newline); end >= 0; end = bytes.indexOf(newline, start)) {
      list.addLine(bytes, start, end);
      start = end + 1;
    }
    // The next read overwrites the chunk.
    rest = Buffer.from(bytes.subarray(start));
    return list.count < maxFunctions;
  });
  return isRead && list.count > 0 ? list.sorted() : null;
}

class FunctionList {
  count = 0;
  #addresses = new Float64Array(firstFunctions);
  /** End of each name in `#names`; the name starts at the end of the previous one. */
  #ends = new Uint32Array(firstFunctions);
  #names = Buffer.alloc(firstNameBytes);

  addLine(bytes: Buffer, start: number, end: number): void {
    if (end - start <= at.name || !functionTypes.has(bytes[start + at.type] ?? 0)) return;
    let address = 0;
    for (let index = start; index < start + at.type - 1; index++) {
      const digit = bytes[index] ?? 0;
      // The upper 16 bits of kernel addresses.
      if (index < start + at.low) {
        if (digit !== letterF) return;
      } else address = address * 16 + (digit >= 97 ? digit - 87 : digit - 48);
    }
    let nameEnd = start + at.name;
    while (nameEnd < end && nameEnd - start - at.name < maxNameBytes && bytes[nameEnd] !== tab && bytes[nameEnd] !== blank) nameEnd++;
    this.#add(address, bytes, start + at.name, nameEnd);
  }

  /** Takes the name's range instead of a string, which saves an object per line. */
  #add(address: number, bytes: Buffer, nameStart: number, nameEnd: number): void {
    const from = this.#ends[this.count - 1] ?? 0;
    if (this.count === this.#addresses.length) {
      this.#addresses = grown(this.#addresses, new Float64Array(this.count * 2));
      this.#ends = grown(this.#ends, new Uint32Array(this.count * 2));
    }
    const end = from + nameEnd - nameStart;
    if (end > this.#names.length) this.#names = grown(this.#names, Buffer.alloc(this.#names.length * 2));
    this.#addresses[this.count] = address;
    bytes.copy(this.#names, from, nameStart, nameEnd);
    this.#ends[this.count++] = end;
  }

  sorted(): KernelFunctions {
    const [unsorted, ends] = [this.#addresses, this.#ends];
    const order = new Uint32Array(this.count).map((_, index) => index);
    order.sort((a, b) => (unsorted[a] ?? 0) - (unsorted[b] ?? 0) || a - b);
    const addresses = Float64Array.from(order, (index) => unsorted[index] ?? 0);
    const nameStarts = Uint32Array.from(order, (index) => ends[index - 1] ?? 0);
    const nameEnds = Uint32Array.from(order, (index) => ends[index] ?? 0);
    // A copy of the used part: the rest of the buffer is freed.
    const names = Buffer.from(this.#names.subarray(0, ends[this.count - 1]));
    return {
      count: this.count,
      nameOf: (address) => {
        let [low, high] = [0, addresses.length];
        while (low < high) {
          const middle = (low + high) >>> 1;
          if ((addresses[middle] ?? 0) <= address) low = middle + 1;
          else high = middle;
        }
        if (low === 0 || address - (addresses[low - 1] ?? 0) > maxFunctionBytes) return null;
        return names.toString("latin1", nameStarts[low - 1], nameEnds[low - 1]);
      },
    };
  }
}

function grown<T extends Float64Array | Uint32Array | Buffer>(from: T, into: T): T {
  into.set(from);
  return into;
}
