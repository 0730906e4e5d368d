/** A function of a language with its own runtime, found in the memory of a process. */
export interface ScriptFunction {
  /** `unnamedFunction` if it has no name. */
  name: string;
  /** Path or URL as the runtime stores it; empty if it has none. */
  file: string;
  /** First line of the function, counting from 1. */
  line: number | null;
}

/** Reads a process's memory. Returns fewer bytes, or none, where it may not be read. */
export type ReadMemory = (address: number, sizeBytes: number) => Buffer;

export const unnamedFunction = "(anonymous)";
