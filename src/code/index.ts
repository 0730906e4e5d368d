/**
 * Reads programs and never runs them: ELF files, symbols, Go tables, machine code, and the sites where a probe is cheap and safe.
 * @module
 */

export { type ArgumentFlow, followArguments } from "./argument-flow.ts";
export { type CallFrames, type FrameFunction, type FrameRow, readCallFrames, registerNumbers } from "./call-frames.ts";
export { decodeFunction, type MachineInstruction, type RegisterName } from "./disassembler.ts";
export { type ReadAt, readBuildId } from "./elf-build-id.ts";
export { findCodeRange, readPointers } from "./elf-code.ts";
export { type ElfImage, readElfImage } from "./elf-image.ts";
export { type ElfFunction, findElfFunctions, findExportedFunctions, mayDefine } from "./elf-symbols.ts";
export { evaluateFrameExpression } from "./frame-expression.ts";
export { isGoProgram, readGoProgram } from "./go-symbols.ts";
export { chooseEntrySite, chooseExitSites, costsNs, findCalls, findForwarding, findSpillFrame, type ProbeSite } from "./probe-site.ts";
export { PythonFunctions } from "./python-functions.ts";
export { type PythonLayout, type PythonProgram, readPythonLayout, readPythonProgram } from "./python-layout.ts";
export { type ReadMemory, type ScriptFunction, unnamedFunction } from "./script-function.ts";
export { createFunctionNames, type FunctionNames } from "./symbol-names.ts";
export { V8Functions } from "./v8-functions.ts";
export { readV8Layout, type V8Layout } from "./v8-layout.ts";
