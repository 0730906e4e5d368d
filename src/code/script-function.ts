/** A function of a language with a runtime of its own, found in the memory of a process. */
export interface ScriptFunction {
  /** `unnamedFunction` for one without a name. */
  name: string;
  /** Path or URL, as the runtime has it; empty if it has none. */
  file: string;
  /** Where the function starts, from 1. */
  line: number | null;
}

/** Reads a process's memory; shorter, down to nothing, where it may not be read. */
export type ReadMemory = (address: number, sizeBytes: number) => Buffer;

export const unnamedFunction = "(anonymous)";
