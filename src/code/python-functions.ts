/** Names Python functions from the memory of a running process. Code objects do not move. Names that are not valid text are omitted. */

import type { PythonLayout } from "./python-layout.ts";
import type { ReadMemory, ScriptFunction } from "./script-function.ts";

/** PyASCIIObject: length, then flags. Bits 2 to 4 are the bytes per character, bit 6 means ASCII. */
const textFields = { length: 16, state: 32 } as const;
const textHeadBytes = 40;
const asciiFlag = 0x40;
const maxCharacters = 1_024;
const maxFunctions = 8_192;
const wordBytes = 8;

export class PythonFunctions {
  readonly #layout: PythonLayout;
  readonly #read: ReadMemory;
  readonly #functions = new Map<number, ScriptFunction | null>();

  constructor(layout: PythonLayout, read: ReadMemory) {
    this.#layout = layout;
    this.#read = read;
  }

  /** The function of the code object at this address. */
  find(address: number): ScriptFunction | null {
    let found = this.#functions.get(address);
    if (found === undefined) {
      found = this.#describe(address);
      if (this.#functions.size >= maxFunctions) this.#functions.clear();
      this.#functions.set(address, found);
    }
    return found;
  }

  #describe(address: number): ScriptFunction | null {
    const { file, name, line } = this.#layout.code;
    const text = this.#text(this.#word(address + name));
    if (text === null || text === "") return null;
    const lineBytes = this.#read(address + line, 4);
    return { name: text, file: this.#text(this.#word(address + file)) ?? "", line: lineBytes.length < 4 ? null : lineBytes.readInt32LE(0) };
  }

  #text(address: number): string | null {
    const head = this.#read(address, textHeadBytes);
    if (head.length < textHeadBytes) return null;
    const length = head.readUInt32LE(textFields.length);
    const state = head.readUInt32LE(textFields.state);
    if (length > maxCharacters) return null;
    if ((state & asciiFlag) !== 0) return this.#characters(address + this.#layout.text.ascii, length, "latin1");
    const characterBytes = (state >> 2) & 7;
    const at = address + this.#layout.text.other;
    if (characterBytes === 1) return this.#characters(at, length, "latin1");
    return characterBytes === 2 ? this.#characters(at, length * 2, "utf16le") : null;
  }

  #characters(address: number, sizeBytes: number, encoding: "latin1" | "utf16le"): string | null {
    const bytes = this.#read(address, sizeBytes);
    return bytes.length < sizeBytes ? null : bytes.toString(encoding);
  }

  #word(address: number): number {
    const bytes = this.#read(address, wordBytes);
    return bytes.length < wordBytes ? 0 : bytes.readUInt32LE(0) + bytes.readUInt32LE(4) * 2 ** 32;
  }
}
