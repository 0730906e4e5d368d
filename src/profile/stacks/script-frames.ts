/** Joins the frames of a language runtime with the native frames around them. */

import { type ScriptFunction, unnamedFunction } from "../../code/index.ts";
import type { ProfileFrame } from "../core/messages.ts";
import type { RuntimeFrame } from "../kernel/sample-record.ts";
import type { LanguageRuntime } from "./language-runtime.ts";
import type { CodePlace } from "./process-code.ts";
import type { UserFrame, Walk } from "./unwind.ts";

/**
 * V8 keeps frame pointers, but the libraries below it may not. `walk`, by unwind tables, leads from the innermost function to the first
 * frame that both contain. Without any JavaScript, `walk` is better.
 */
export function joinV8Frames(
  walk: Walk,
  frames: readonly RuntimeFrame[],
  runtime: LanguageRuntime,
  find: (address: number) => CodePlace | null,
  nowMs: number,
): Walk {
  const joined: UserFrame[] = [];
  let scripts = 0;
  for (const [index, { address, pointer }] of frames.entries()) {
    const script = pointer === 0 ? null : runtime.find(pointer, nowMs);
    if (script !== null && isUnnamedBuiltin(script)) continue;
    if (script !== null) scripts++;
    const place = script === null || index === 0 ? find(index === 0 ? address : address - 1) : null;
    // A builtin, or a library function without a frame of its own, runs on behalf of the function whose frame this is.
    if (script !== null && place !== null && place.file !== null) joined.push({ address, place, script: null });
    joined.push({ address: index === 0 ? address : address - 1, place, script });
  }
  if (scripts === 0) return walk;
  // Backwards, so that for a recursion the innermost frame is used.
  const places = new Map(joined.map(({ address }, index) => [address, index] as const).toReversed());
  for (const [index, { address }] of walk.frames.entries()) {
    const at = index === 0 ? undefined : places.get(address);
    if (at === undefined) continue;
    // The tables found no more than the frame pointers, whose frames have names.
    if (index <= at) break;
    return { frames: [...walk.frames.slice(0, index), ...joined.slice(at)], end: walk.end };
  }
  return { frames: joined, end: walk.end };
}

/** Closures with which V8 resumes asynchronous functions; the next frame is the function itself. */
function isUnnamedBuiltin({ name, file }: ScriptFunction): boolean {
  return file === "" && name === unnamedFunction;
}

/** Builtins of the interpreter and of calls show how JavaScript runs, not what runs. Others such as `ArrayPrototypeSort` are kept. */
const hiddenBuiltin =
  /^Builtins_(\w*Handler|\w*IC(?:_\w+|Trampoline\w*)?|JS\w*(?:Entry|Stub)\w*|\w*Trampoline\w*|Call\w*|Construct\w*|CEntry\w*|\w*Baseline\w*)$/;
const builtinPrefix = "Builtins_";

/** Null for a frame that is not worth showing. */
export function shownNativeFrame(frame: ProfileFrame): ProfileFrame | null {
  if (!frame.name.startsWith(builtinPrefix)) return frame;
  return hiddenBuiltin.test(frame.name) ? null : { ...frame, name: frame.name.slice(builtinPrefix.length), kind: "node" };
}

/** CPython's evaluation function. One call of it may run several Python frames. */
const evaluate = "_PyEval_EvalFrameDefault";

/**
 * All frames by number, outermost first. The Python frames replace what the interpreter runs between its first and last evaluation. The C
 * functions that the innermost Python function called are kept. If the interpreter has no symbols, only Python's own frames are shown.
 */
export function joinPythonFrames(native: readonly number[], python: readonly number[], nameOf: (frame: number) => string): number[] {
  const isEvaluation = (frame: number): boolean => nameOf(frame).startsWith(evaluate);
  const first = native.findIndex(isEvaluation);
  if (first < 0) return [...python];
  return [...native.slice(0, first), ...python, ...native.slice(native.findLastIndex(isEvaluation) + 1)];
}

/** Code that ships with V8 has no file. */
const ownModule = "v8";

/** `file:///srv/shop/routes/checkout.mjs` → `routes/checkout.mjs`: bare file names repeat, and whole paths are too long to read. */
export function shortFile(file: string): string {
  if (file === "") return ownModule;
  if (file.startsWith("node:")) return file;
  return file
    .replace(/^file:\/\//, "")
    .split("/")
    .slice(-2)
    .join("/")
    .slice(-100);
}
