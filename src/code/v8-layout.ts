/**
 * Where a V8 build stores the names of functions. Node's executable describes most of it in `v8dbg_*` variables for debuggers, whose names
 * differ between versions. Tested with V8 11.3 (Node 20); the names of 12.4 (22) and 13.6 (24) are listed as well.
 */

import type { ElfImage } from "./elf-image.ts";
import { findElfVariables } from "./elf-symbols.ts";

export interface V8Layout {
  /** Offsets of fields in bytes. */
  function: { shared: number };
  shared: { name: number; script: number };
  script: { name: number; source: number; lineEnds: number };
  /** Word indexes in a ScopeInfo, after its map. */
  scope: { localCount: number; firstLocal: number };
  /** Instance types, by which every pointer is checked. */
  types: { shared: number; script: number; scope: number };
}

/** Names by version; the first one that exists is used. */
const variables = {
  taggedSize: ["TaggedSize"],
  functionShared: ["class_JSFunction__shared__SharedFunctionInfo"],
  sharedName: [
    "class_SharedFunctionInfo__name_or_scope_info__Object",
    "class_SharedFunctionInfo__name_or_scope_info__Tagged_Object_",
    "class_SharedFunctionInfo__name_or_scope_info__Tagged_NameOrScopeInfoT_",
  ],
  sharedScript: [
    "class_SharedFunctionInfo__script_or_debug_info__HeapObject",
    "class_SharedFunctionInfo__script__Tagged_HeapObject_",
    "class_SharedFunctionInfo__raw_script__Tagged_Object_",
  ],
  scriptName: ["class_Script__name__Object"],
  scriptSource: ["class_Script__source__Object"],
  scriptLineEnds: ["class_Script__line_ends__Object"],
  scopeLocalCount: ["scopeinfo_idx_ncontextlocals"],
  scopeFirstLocal: ["scopeinfo_idx_first_vars"],
  sharedType: ["type_SharedFunctionInfo__SHARED_FUNCTION_INFO_TYPE"],
  scriptType: ["type_Script__SCRIPT_TYPE"],
  scopeType: ["type_ScopeInfo__SCOPE_INFO_TYPE"],
} as const;

const wordBytes = 8;

/**
 * Null for a file without V8, for a version with other names, and for builds with pointer compression (Electron), whose objects have
 * another layout.
 */
export function readV8Layout(image: ElfImage): V8Layout | null {
  const names = Object.values(variables).flat();
  const addresses = findElfVariables(
    image,
    names.map((name) => `v8dbg_${name}`),
  );
  let isComplete = true;
  const value = (key: keyof typeof variables): number => {
    for (const name of variables[key]) {
      const address = addresses.get(`v8dbg_${name}`);
      const bytes = address === undefined ? Buffer.alloc(0) : image.readAddress(address, 4);
      if (bytes.length === 4) return bytes.readInt32LE(0);
    }
    isComplete = false;
    return 0;
  };
  const layout: V8Layout = {
    function: { shared: value("functionShared") },
    shared: { name: value("sharedName"), script: value("sharedScript") },
    script: { name: value("scriptName"), source: value("scriptSource"), lineEnds: value("scriptLineEnds") },
    scope: { localCount: value("scopeLocalCount"), firstLocal: value("scopeFirstLocal") },
    types: { shared: value("sharedType"), script: value("scriptType"), scope: value("scopeType") },
  };
  return value("taggedSize") === wordBytes && isComplete ? layout : null;
}
