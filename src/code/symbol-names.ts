/**
 * Finds function names by address. A file's symbols are read once, into arrays of 12 bytes per function; a name is decoded when an address
 * in its function is requested.
 */

import { demangle } from "./demangle.ts";
import { type ElfImage, type ElfSection, readPart, sectionTypes } from "./elf-image.ts";
import { nameGoAddresses } from "./go-symbols.ts";

export interface NamedFunction {
  name: string;
  /** Start address of the function. */
  start: number;
}

export interface FunctionNames {
  /** Bytes of the file that the next call of `find` may have to read; 0 once they are read. */
  readonly unreadBytes: number;
  /** Memory of the data read. */
  readonly sizeBytes: number;
  /** The functions at these addresses. Addresses without a name are omitted. */
  find(addresses: readonly number[]): Map<number, NamedFunction>;
  /** Frees the data; the next `find` reads it again. */
  release(): void;
}

const symbolBytes = 24;
const symbolWords = symbolBytes / 4;
/** Symbols read at a time into one buffer that all files share. */
const symbolsPerPiece = 8_192;
const maxSymbols = 8_000_000;
/** C++ names may be long; longer ones are truncated. */
const maxNameBytes = 1_024;
/** A symbol without a size, as in hand-written assembly, extends to the next one, but at most this far. */
const maxUnsizedBytes = 64 * 1024;
/** How many symbols below an address are checked: functions may be nested, and labels lie between. */
const maxStepsBack = 64;
/** Start (below 2^32) and number of a symbol are sorted together as one 53-bit double. */
const maxFunctions = 2 ** 21;
const maxSpan = 2 ** 32;
const types = { none: 0, function: 2, indirectFunction: 10 } as const;

export function createFunctionNames(image: ElfImage): FunctionNames {
  const sections = [sectionTypes.symbols, sectionTypes.dynamicSymbols].flatMap((type) =>
    image.sections.filter((section) => section.type === type),
  );
  /** The tables read so far. The dynamic symbols are a subset of the full table. */
  const tables: SymbolTable[] = [];
  return {
    get unreadBytes() {
      return tables.length > 0 ? 0 : (sections[0]?.sizeBytes ?? 0);
    },
    get sizeBytes() {
      return tables.reduce((sum, table) => sum + table.sizeBytes, 0);
    },
    find: (addresses) => {
      const named = nameGoAddresses(image, addresses);
      for (const [index, section] of sections.entries()) {
        const rest = addresses.filter((address) => !named.has(address));
        if (rest.length === 0) break;
        tables[index] ??= readTable(image, section);
        for (const address of rest) {
          const found = tables[index].find(address);
          if (found !== null) named.set(address, found);
        }
      }
      return named;
    },
    release: () => {
      tables.length = 0;
    },
  };
}

class SymbolTable {
  readonly #image: ElfImage;
  readonly #strings: ElfSection;
  readonly #base: number;
  /** Ascending and distinct, relative to `base`. */
  readonly #starts: Uint32Array;
  readonly #sizes: Uint32Array;
  readonly #names: Uint32Array;

  constructor(image: ElfImage, strings: ElfSection, base: number, functions: SortedFunctions) {
    this.#image = image;
    this.#strings = strings;
    this.#base = base;
    this.#starts = functions.starts;
    this.#sizes = functions.sizes;
    this.#names = functions.names;
  }

  get sizeBytes(): number {
    return this.#starts.byteLength + this.#sizes.byteLength + this.#names.byteLength;
  }

  find(address: number): NamedFunction | null {
    const index = this.#indexOf(address - this.#base);
    if (index < 0) return null;
    const name = nameAt(this.#image, this.#strings, this.#names[index] ?? 0);
    return name === "" ? null : { name: demangle(name), start: this.#base + (this.#starts[index] ?? 0) };
  }

  /** A symbol with a size states exactly what it contains; among the others the nearest wins. */
  #indexOf(wanted: number): number {
    let [low, high] = [0, this.#starts.length];
    while (low < high) {
      const middle = (low + high) >>> 1;
      if ((this.#starts[middle] ?? 0) <= wanted) low = middle + 1;
      else high = middle;
    }
    let unsized = -1;
    for (let index = low - 1; index >= Math.max(0, low - maxStepsBack); index--) {
      const distance = wanted - (this.#starts[index] ?? 0);
      const sizeBytes = this.#sizes[index] ?? 0;
      if (distance < sizeBytes) return index;
      if (sizeBytes === 0 && unsized < 0 && distance < maxUnsizedBytes) unsized = index;
    }
    return unsized;
  }
}

interface SortedFunctions {
  starts: Uint32Array;
  sizes: Uint32Array;
  names: Uint32Array;
}

const noFunctions: SortedFunctions = { starts: new Uint32Array(0), sizes: new Uint32Array(0), names: new Uint32Array(0) };
const piece = Buffer.alloc(symbolsPerPiece * symbolBytes);

function readTable(image: ElfImage, section: ElfSection): SymbolTable {
  const base = image.segments.reduce((least, { address, isExecutable }) => (isExecutable ? Math.min(least, address) : least), Infinity);
  const strings = image.sections[section.link];
  if (strings === undefined || !Number.isFinite(base) || section.sizeBytes > maxSymbols * symbolBytes) {
    return new SymbolTable(image, strings ?? section, 0, noFunctions);
  }
  return new SymbolTable(image, strings, base, sorted(readFunctions(image, section, base)));
}

/** In file order; `starts` are relative to `base`. */
function readFunctions(image: ElfImage, section: ElfSection, base: number): SortedFunctions {
  const words = new Uint32Array(piece.buffer, piece.byteOffset, symbolsPerPiece * symbolWords);
  const most = Math.min(maxFunctions, Math.floor(section.sizeBytes / symbolBytes));
  const functions = { starts: new Uint32Array(most), sizes: new Uint32Array(most), names: new Uint32Array(most) };
  let count = 0;
  for (let at = 0; at < section.sizeBytes && count < most; ) {
    const wanted = Math.min(piece.length, section.sizeBytes - at);
    const length = Math.max(0, image.readAt(piece.subarray(0, wanted), section.fileOffset + at));
    for (let word = 0; (word + symbolWords) * 4 <= length && count < most; word += symbolWords) {
      const info = words[word + 1] ?? 0;
      const type = info & 15;
      if (type !== types.function && type !== types.indirectFunction && type !== types.none) continue;
      const address = (words[word + 2] ?? 0) + (words[word + 3] ?? 0) * 2 ** 32;
      const start = address - base;
      // The upper half of the word is the section: 0 for symbols defined in another file.
      if (address === 0 || info >>> 16 === 0 || start < 0 || start >= maxSpan) continue;
      // Symbols without a type are assembly labels, if they are in code at all.
      if (type === types.none && !image.isCode(address)) continue;
      functions.starts[count] = start;
      functions.sizes[count] = (words[word + 5] ?? 0) === 0 ? (words[word + 4] ?? 0) : maxSpan - 1;
      functions.names[count++] = words[word] ?? 0;
    }
    if (length < wanted) break;
    at += length;
  }
  return {
    starts: functions.starts.subarray(0, count),
    sizes: functions.sizes.subarray(0, count),
    names: functions.names.subarray(0, count),
  };
}

/** Among several at one address, the first with a size, else the first. */
function sorted({ starts, sizes, names }: SortedFunctions): SortedFunctions {
  const keys = new Float64Array(starts.length);
  for (let index = 0; index < keys.length; index++) keys[index] = (starts[index] ?? 0) * maxFunctions + index;
  keys.sort();
  const kept = new Uint32Array(keys.length);
  let count = 0;
  for (let at = 0; at < keys.length; at++) {
    const index = (keys[at] ?? 0) % maxFunctions;
    const before = count === 0 ? -1 : (kept[count - 1] ?? -1);
    if (before < 0 || starts[before] !== starts[index]) kept[count++] = index;
    else if (sizes[before] === 0 && sizes[index] !== 0) kept[count - 1] = index;
  }
  const order = kept.subarray(0, count);
  return { starts: picked(starts, order), sizes: picked(sizes, order), names: picked(names, order) };
}

function picked(values: Uint32Array, order: Uint32Array): Uint32Array {
  const chosen = new Uint32Array(order.length);
  for (let at = 0; at < order.length; at++) chosen[at] = values[order[at] ?? 0] ?? 0;
  return chosen;
}

function nameAt(image: ElfImage, strings: ElfSection, offset: number): string {
  if (offset >= strings.sizeBytes) return "";
  const bytes = readPart(image.readAt, strings.fileOffset + offset, Math.min(maxNameBytes, strings.sizeBytes - offset));
  const end = bytes.indexOf(0);
  return bytes.toString("latin1", 0, end < 0 ? bytes.length : end);
}
