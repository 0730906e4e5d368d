/**
 * Offsets of CPython's thread and frame structures in bytes on 64-bit machines, from the headers of each version. Since 3.13 the process
 * exports them in `_Py_DebugOffsets` at the start of `_PyRuntime`.
 */

import type { ElfImage } from "./elf-image.ts";
import { findElfVariables } from "./elf-symbols.ts";
import type { ReadMemory } from "./script-function.ts";

export interface PythonLayout {
  runtime: { interpreters: number };
  interpreter: { threads: number };
  /** `holder`: in 3.11 and 3.12 a structure on the C stack holds the frame. */
  thread: { next: number; id: number; frame: number; holder: number | null };
  frame: { code: number; previous: number; owner: number };
  code: { file: number; name: number; line: number };
  /** Offsets of a string's characters: ASCII, and others. */
  text: { ascii: number; other: number };
}

export interface PythonProgram {
  /** `3.11` */
  version: string;
  /** Address of `_PyRuntime` in the file's own address space. */
  runtimeAddress: number;
}

const layouts: ReadonlyMap<string, PythonLayout> = new Map([
  [
    "3.11",
    {
      runtime: { interpreters: 40 },
      interpreter: { threads: 16 },
      thread: { next: 8, id: 160, frame: 56, holder: 8 },
      frame: { code: 32, previous: 48, owner: 69 },
      code: { file: 112, name: 128, line: 72 },
      text: { ascii: 48, other: 72 },
    },
  ],
  [
    "3.12",
    {
      runtime: { interpreters: 40 },
      interpreter: { threads: 72 },
      thread: { next: 8, id: 144, frame: 56, holder: 0 },
      frame: { code: 0, previous: 8, owner: 70 },
      code: { file: 112, name: 128, line: 68 },
      text: { ascii: 40, other: 56 },
    },
  ],
]);

/** Word positions in `_Py_DebugOffsets` of 3.13. The order is fixed within a minor version. */
const exportedWords = {
  interpreters: 5,
  threads: 9,
  next: 21,
  id: 25,
  frame: 23,
  code: 30,
  previous: 29,
  owner: 33,
  file: 35,
  name: 37,
  line: 39,
} as const;
const exportedMark = "xdebugpy";
const exportedBytes = 44 * 8;

/** Null for a file without CPython, or with a version before 3.11, which does not export its version. */
export function readPythonProgram(image: ElfImage): PythonProgram | null {
  const found = findElfVariables(image, ["_PyRuntime", "Py_Version"]);
  const [runtimeAddress, versionAddress] = [found.get("_PyRuntime"), found.get("Py_Version")];
  if (runtimeAddress === undefined || versionAddress === undefined) return null;
  // 0x030b02f0 is 3.11.2 final.
  const bytes = image.readAddress(versionAddress, 4);
  return bytes.length < 4 ? null : { version: `${bytes[3] ?? 0}.${bytes[2] ?? 0}`, runtimeAddress };
}

/** `address` of `_PyRuntime` in the process. Null for an unknown version. */
export function readPythonLayout(version: string, address: number, read: ReadMemory): PythonLayout | null {
  const known = layouts.get(version);
  if (known !== undefined || version !== "3.13") return known ?? null;
  const bytes = read(address, exportedBytes);
  if (bytes.length < exportedBytes || bytes.toString("latin1", 0, exportedMark.length) !== exportedMark) return null;
  const at = (key: keyof typeof exportedWords): number => bytes.readUInt32LE(exportedWords[key] * 8);
  return {
    runtime: { interpreters: at("interpreters") },
    interpreter: { threads: at("threads") },
    thread: { next: at("next"), id: at("id"), frame: at("frame"), holder: null },
    frame: { code: at("code"), previous: at("previous"), owner: at("owner") },
    code: { file: at("file"), name: at("name"), line: at("line") },
    text: { ascii: 40, other: 56 },
  };
}
