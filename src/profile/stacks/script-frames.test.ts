import { describe, expect, it } from "vitest";
import type { LanguageRuntime } from "./language-runtime.ts";
import { joinPythonFrames, joinV8Frames, shortFile, shownNativeFrame } from "./script-frames.ts";
import type { UserFrame, Walk } from "./unwind.ts";

const names = new Map([
  [1, { name: "handleCheckout", file: "/srv/cart.js", line: 3 }],
  [2, { name: "onRequest", file: "/srv/http.js", line: 9 }],
  [3, { name: "(anonymous)", file: "", line: null }],
]);
const runtime: LanguageRuntime = {
  kind: "node",
  entry: { kind: "python", address: 0, layout: {} as never },
  find: (pointer) => names.get(pointer) ?? null,
};
const native = (address: number): UserFrame => ({ address, place: null, script: null });
const shown = (walk: Walk): (string | number)[] => walk.frames.map(({ address, script }) => script?.name ?? address);

describe("joinV8Frames()", () => {
  const join = (walk: readonly number[], frames: readonly [address: number, pointer: number][]): (string | number)[] =>
    shown(
      joinV8Frames(
        { frames: walk.map(native), end: "bottom" },
        frames.map(([address, pointer]) => ({ address, pointer })),
        runtime,
        () => null,
        0,
      ),
    );

  it("names frames that point to functions", () => {
    expect(
      join(
        [10, 19],
        [
          [10, 1],
          [20, 2],
          [30, 0],
        ],
      ),
    ).toEqual(["handleCheckout", "onRequest", 29]);
  });

  it("starts with the frames that unwind tables found below the first frame pointer", () => {
    expect(
      join(
        [5, 6, 7, 19],
        [
          [5, 0],
          [20, 2],
          [30, 0],
        ],
      ),
    ).toEqual([5, 6, 7, "onRequest", 29]);
  });

  it("keeps the walk by unwind tables if no frame is JavaScript", () => {
    expect(
      join(
        [5, 6],
        [
          [5, 0],
          [20, 99],
        ],
      ),
    ).toEqual([5, 6]);
  });

  it("omits closures that only resume asynchronous functions", () => {
    expect(
      join(
        [10],
        [
          [10, 1],
          [20, 3],
          [30, 2],
        ],
      ),
    ).toEqual(["handleCheckout", "onRequest"]);
  });
});

describe("joinPythonFrames()", () => {
  const nameOf = (frame: number): string => ["main", "_PyEval_EvalFrameDefault", "call", "PyObject_Hash"][frame] ?? "";

  it.for([
    ["between evaluations", [0, 1, 2, 1, 3], [0, 10, 11, 3]],
    ["at the end of the stack", [0, 1], [0, 10, 11]],
    ["alone where the interpreter has no names", [2, 3], [10, 11]],
  ] as const)("puts Python's frames %s", ([, frames, expected]) => {
    expect(joinPythonFrames(frames, [10, 11], nameOf)).toEqual(expected);
  });
});

describe("frames of the runtime", () => {
  it.for([
    ["Builtins_LdaNamedPropertyHandler", null],
    ["Builtins_LoadIC", null],
    ["Builtins_InterpreterEntryTrampoline", null],
    ["Builtins_JSBuiltinsConstructStub", null],
    ["Builtins_CallFunction_ReceiverIsAny", null],
    ["Builtins_ArrayPrototypeSort", "ArrayPrototypeSort"],
    ["uv_run", "uv_run"],
  ] as const)("%s is shown as %s", ([name, expected]) => {
    expect(shownNativeFrame({ name, module: "node", kind: "native" })?.name ?? null).toBe(expected);
  });

  it.for([
    ["file:///srv/shop/routes/checkout.mjs", "routes/checkout.mjs"],
    ["/srv/shop/app.py", "shop/app.py"],
    ["node:internal/timers", "node:internal/timers"],
    ["", "v8"],
  ] as const)("the file %s is shown as %s", ([file, expected]) => {
    expect(shortFile(file)).toBe(expected);
  });
});
