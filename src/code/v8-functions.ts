/**
 * Names JavaScript functions from the memory of a running process. V8 moves and frees objects meanwhile, so every pointer is checked by the
 * type of its target: a stale pointer gives no name instead of a wrong one.
 */

import { type ReadMemory, type ScriptFunction, unnamedFunction } from "./script-function.ts";
import type { V8Layout } from "./v8-layout.ts";

/** Offset of the instance type in a map. It is the type of the objects that the map describes. */
const mapTypeOffset = 12;
/** Instance types below this are strings. Their low bits are the representation; bit 3 is set for one byte per character. */
const firstNonString = 128;
const representation = { mask: 7, flat: 0, cons: 1, external: 2, sliced: 3, thin: 5, oneByte: 8 } as const;
/** Fields of strings: V8's objects/string.h, the same in versions 11 to 13 without pointer compression. */
const stringFields = { length: 12, characters: 16, first: 16, second: 24, resourceData: 24, slicedOffset: 24 } as const;
const maxStringDepth = 8;
/** Limits for names and paths, and for script text, which is only read for its line ends. */
const maxNameCharacters = 512;
const maxSourceCharacters = 4 * 1024 * 1024;
const maxLines = 1024 * 1024;
/** From this number of locals on, their names are in a hash table, which takes one word. */
const localsInTable = 75;
/** How many fields after the locals of a ScopeInfo are searched for the function's name. */
const searchedFields = 10;
/** A longer "name" is the text of a script, which is stored in the same position. */
const maxFunctionName = 200;
const headerBytes = 8;
const wordBytes = 8;
/** Heap pointers have 01 in the lowest two bits and are in the lower half of the address space. */
const tag = 1;
const addressEnd = 2 ** 47;
const lowestAddress = 65_536;

const maxFunctions = 8_192;
const maxScripts = 2_048;
/** The garbage collector may reuse an address, so its content is checked again after this time. */
const recheckMs = 1_000;
const checkedBytes = 64;

interface KnownFunction {
  function: ScriptFunction | null;
  bytes: string;
  checkedMs: number;
}

interface Script {
  file: string;
  /** Offsets of line ends, ascending; null if the process has not computed them and the text is too long. */
  lineEnds: readonly number[] | null;
}

export class V8Functions {
  readonly #layout: V8Layout;
  readonly #read: ReadMemory;
  readonly #functions = new Map<number, KnownFunction>();
  readonly #scripts = new Map<number, Script>();

  constructor(layout: V8Layout, read: ReadMemory) {
    this.#layout = layout;
    this.#read = read;
  }

  /** The function of a SharedFunctionInfo, by its tagged pointer; null if the pointer is not, or no longer, one. */
  find(pointer: number, nowMs: number): ScriptFunction | null {
    const known = this.#functions.get(pointer);
    if (known !== undefined && nowMs - known.checkedMs < recheckMs) return known.function;
    const bytes = this.#typeOf(pointer) === this.#layout.types.shared ? this.#read(pointer - tag, checkedBytes) : Buffer.alloc(0);
    const text = bytes.toString("latin1", wordBytes);
    if (known !== undefined && known.bytes === text) {
      known.checkedMs = nowMs;
      return known.function;
    }
    const found = bytes.length < checkedBytes ? null : this.#describe(bytes);
    if (this.#functions.size >= maxFunctions) this.#functions.clear();
    this.#functions.set(pointer, { function: found, bytes: text, checkedMs: nowMs });
    return found;
  }

  #describe(bytes: Buffer): ScriptFunction {
    const { shared, types } = this.#layout;
    const nameOrScope = wordAt(bytes, shared.name);
    const type = this.#typeOf(nameOrScope);
    const scope =
      type === types.scope ? this.#scopeOf(nameOrScope) : { name: type < firstNonString ? this.#string(nameOrScope) : null, start: null };
    const scriptPointer = wordAt(bytes, shared.script);
    const script = this.#typeOf(scriptPointer) === types.script ? this.#script(scriptPointer) : null;
    const ends = script?.lineEnds ?? null;
    const line = ends === null || scope.start === null ? null : lineOf(ends, scope.start);
    return { name: scope.name === null || scope.name === "" ? unnamedFunction : scope.name, file: script?.file ?? "", line };
  }

  /**
   * A ScopeInfo contains flags, parameters, locals, and in newer versions start and end; then names and kinds of locals, then optional
   * fields. The first string among those is the name.
   */
  #scopeOf(pointer: number): { name: string | null; start: number | null } {
    const { localCount, firstLocal } = this.#layout.scope;
    const head = this.#read(pointer - tag + headerBytes, firstLocal * wordBytes);
    if (head.length < firstLocal * wordBytes) return { name: null, start: null };
    const locals = smallInteger(head, localCount);
    const skipped = firstLocal + (locals < localsInTable ? 2 * locals : 1 + locals);
    const fields = this.#read(pointer - tag + headerBytes + skipped * wordBytes, searchedFields * wordBytes);
    const words = Array.from({ length: Math.floor(fields.length / wordBytes) }, (_, index) => wordAt(fields, index * wordBytes));
    const hasPositions = firstLocal > localCount + 2;
    return { name: this.#firstName(words), start: hasPositions ? smallInteger(head, localCount + 1) : positionBehind(fields) };
  }

  #firstName(words: readonly number[]): string | null {
    for (const word of words) {
      const type = this.#typeOf(word);
      if (type === this.#layout.types.scope) return null; // the outer scope, which comes after the name
      const text = type >= 0 && type < firstNonString ? this.#string(word) : null;
      if (text !== null && text.length <= maxFunctionName && !text.includes("\n")) return text;
    }
    return null;
  }

  #script(pointer: number): Script {
    let script = this.#scripts.get(pointer);
    if (script === undefined) {
      const { name, source, lineEnds } = this.#layout.script;
      const file = this.#string(this.#word(pointer - tag + name)) ?? "";
      const ends = this.#lineEnds(this.#word(pointer - tag + lineEnds)) ?? this.#lineEndsOf(this.#word(pointer - tag + source));
      script = { file, lineEnds: ends };
      if (this.#scripts.size >= maxScripts) this.#scripts.clear();
      this.#scripts.set(pointer, script);
    }
    return script;
  }

  /** V8 computes them when it needs a line number; until then the field has another type. */
  #lineEnds(pointer: number): number[] | null {
    if (this.#typeOf(pointer) < firstNonString) return null;
    const count = smallInteger(this.#read(pointer - tag + headerBytes, wordBytes), 0);
    if (!(count > 0 && count <= maxLines)) return null;
    const bytes = this.#read(pointer - tag + 2 * wordBytes, count * wordBytes);
    const ends = Array.from({ length: Math.floor(bytes.length / wordBytes) }, (_, index) => smallInteger(bytes, index));
    return ends.length === count && ends.every((end, index) => index === 0 || end > (ends[index - 1] ?? 0)) ? ends : null;
  }

  #lineEndsOf(source: number): number[] | null {
    const text = this.#string(source, maxSourceCharacters);
    if (text === null) return null;
    const ends: number[] = [];
    for (let at = text.indexOf("\n"); at >= 0; at = text.indexOf("\n", at + 1)) ends.push(at);
    return [...ends, text.length];
  }

  #string(pointer: number, maxCharacters = maxNameCharacters, depth = 0): string | null {
    const type = this.#typeOf(pointer);
    if (type < 0 || type >= firstNonString || depth >= maxStringDepth) return null;
    const address = pointer - tag;
    const head = this.#read(address, 32);
    if (head.length < 24) return null;
    const length = head.readInt32LE(stringFields.length);
    if (length < 0 || length > maxCharacters) return null;
    const isOneByte = (type & representation.oneByte) !== 0;
    const characters = (at: number): string | null => {
      const bytes = this.#read(at, isOneByte ? length : length * 2);
      return bytes.length < (isOneByte ? length : length * 2) ? null : bytes.toString(isOneByte ? "latin1" : "utf16le");
    };
    const part = (offset: number, most = maxCharacters): string | null => this.#string(wordAt(head, offset), most, depth + 1);
    switch (type & representation.mask) {
      case representation.flat:
        return characters(address + stringFields.characters);
      case representation.external:
        return characters(wordAt(head, stringFields.resourceData));
      case representation.cons: {
        const [first, second] = [part(stringFields.first), part(stringFields.second)];
        return first === null || second === null ? null : first + second;
      }
      case representation.sliced: {
        const offset = head.readInt32LE(stringFields.slicedOffset + 4);
        return part(stringFields.first, maxSourceCharacters)?.slice(offset, offset + length) ?? null;
      }
      case representation.thin:
        return part(stringFields.first);
      default:
        return null;
    }
  }

  /** -1 if it is not a pointer to an object. */
  #typeOf(pointer: number): number {
    if (!isHeapPointer(pointer)) return -1;
    const map = this.#word(pointer - tag);
    if (!isHeapPointer(map)) return -1;
    const bytes = this.#read(map - tag + mapTypeOffset, 2);
    return bytes.length < 2 ? -1 : bytes.readUInt16LE(0);
  }

  #word(address: number): number {
    const bytes = this.#read(address, wordBytes);
    return bytes.length < wordBytes ? 0 : wordAt(bytes, 0);
  }
}

function isHeapPointer(pointer: number): boolean {
  return pointer % 4 === tag && pointer > lowestAddress && pointer < addressEnd;
}

function wordAt(bytes: Buffer, at: number): number {
  return bytes.readUInt32LE(at) + bytes.readUInt32LE(at + 4) * 2 ** 32;
}

/** A small integer (Smi) is in the upper half of the word; the lower half is 0. */
function smallInteger(bytes: Buffer, index: number): number {
  const at = index * wordBytes + 4;
  return at + 4 <= bytes.length ? bytes.readInt32LE(at) : 0;
}

/** Older versions store start and end of the function after its name, as two ascending small integers. */
function positionBehind(fields: Buffer): number | null {
  for (let index = 0; (index + 2) * wordBytes <= fields.length; index++) {
    const isPair = fields.readUInt32LE(index * wordBytes) === 0 && fields.readUInt32LE((index + 1) * wordBytes) === 0;
    const [start, end] = [smallInteger(fields, index), smallInteger(fields, index + 1)];
    if (isPair && start >= 0 && end > start + 1) return start;
  }
  return null;
}

/** Line number, counting from 1. */
function lineOf(lineEnds: readonly number[], position: number): number {
  let [low, high] = [0, lineEnds.length];
  while (low < high) {
    const middle = (low + high) >>> 1;
    if ((lineEnds[middle] ?? 0) < position) low = middle + 1;
    else high = middle;
  }
  return low + 1;
}
