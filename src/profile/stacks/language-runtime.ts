/** The language runtime of a process: where the kernel program finds its frames, and the functions of those frames. */

import { PythonFunctions, type ReadMemory, readPythonLayout, type ScriptFunction, V8Functions } from "../../code/index.ts";
import type { CodeMapping } from "../../host/index.ts";
import type { RuntimeEntry } from "../kernel/runtime-table.ts";
import type { CodeFile } from "./code-file.ts";

export interface LanguageRuntime {
  kind: "node" | "python";
  /** For the kernel program. */
  entry: RuntimeEntry;
  /** The function that a frame of the kernel program points to; null for native frames, and if V8 has moved it. */
  find(pointer: number, nowMs: number): ScriptFunction | null;
}

export interface LoadedFile {
  mapping: CodeMapping;
  file: CodeFile;
}

/** Null for a process without a supported runtime, or with an unknown version. */
export function findRuntime(loaded: readonly LoadedFile[], read: ReadMemory): LanguageRuntime | null {
  for (const { file, mapping } of loaded) {
    const layout = file.v8;
    if (layout !== null) {
      const functions = new V8Functions(layout, read);
      return { kind: "node", entry: { kind: "v8", layout }, find: (pointer, nowMs) => functions.find(pointer, nowMs) };
    }
    const found = file.python === null ? null : openPython(file, mapping, read);
    if (found !== null) return found;
  }
  return null;
}

function openPython(file: CodeFile, mapping: CodeMapping, read: ReadMemory): LanguageRuntime | null {
  const [program, bias] = [file.python, file.biasOf(mapping)];
  if (program === null || bias === null) return null;
  const address = program.runtimeAddress + bias;
  const layout = readPythonLayout(program.version, address, read);
  if (layout === null) return null;
  const functions = new PythonFunctions(layout, read);
  return { kind: "python", entry: { kind: "python", layout, address }, find: (pointer) => functions.find(pointer) };
}
