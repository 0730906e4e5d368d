import { describe, expect, it } from "vitest";
import { SeededRandom } from "../base/seeded-random.fixture.ts";
import { type ArgumentFlow, type ArgumentFlowOptions, followArguments } from "./argument-flow.ts";
import { decodeFunction } from "./disassembler.ts";

const code = (hex: string, fromStartBytes = 0) => decodeFunction(Buffer.from(hex.replaceAll(" ", ""), "hex"), fromStartBytes);

/** The first and the second argument at the function's nop. */
function keptAtNop(hex: string, options: Partial<ArgumentFlowOptions> = {}): unknown[] | null {
  const flow = followArguments(code(hex), { copied: 1, ...options });
  if (flow === null) return null;
  const index = flow.instructions.findIndex(({ kind }) => kind === "nop");
  return [flow.placesOf(index, 0, 8), flow.placesOf(index, 1, 1)];
}

/** push %rbx · mov %rdi,%rbx · test %esi,%esi · je 268 · nop · pop %rbx · ret */
const leaving = "53 4889fb 85f6 0f8400010000 90 5b c3";

describe("followArguments()", () => {
  it.each([
    [
      "sub $24,%rsp · mov %sil,3(%rsp) · mov %rdi,8(%rsp) · call · mov 8(%rsp),%rdi",
      "4883ec18 4088742403 48897c2408 e800010000 488b7c2408 90 4883c418 c3",
      [[8, "rdi"], [3]],
    ],
    ["push %rbx · mov %rdi,%rbx · a call", "53 4889fb e800010000 90 5b c3", [["rbx"], []]],
    ["mov %edi,%ebx: half of it · movzbl %sil,%r12d", "89fb 440fb6e6 90 c3", [["rdi"], ["rsi", "r12"]]],
    ["one path to it overwrites the register", "53 4889fb 85f6 7402 31db 90 5b c3", [["rdi"], ["rsi"]]],
    ["a conditional move", "4889fb 480f44d8 90 c3", [["rdi"], ["rsi"]]],
    [
      "a frame by %rbp, and a loop",
      "55 4889e5 53 4883ec18 48897de0 4889f3 4889df e800010000 4801c3 4889c7 ffca 75ee 90 488d65f8 5b 5d c3",
      [[0], []],
    ],
    ["part of the slot is overwritten", "4883ec18 48897c2408 48c744240400000000 90 4883c418 c3", [["rdi"], ["rsi"]]],
    ["an unknown slot is overwritten", "4883ec18 48897c2408 c6043400 90 4883c418 c3", [["rdi"], ["rsi"]]],
    ["the address of the slot escapes", "4883ec18 48897c2408 488d742408 e800010000 90 4883c418 c3", [[], []]],
    ["the stack is aligned, so its slots are unknown", "4889fb 4883e4f0 48893424 90 c3", [[], []]],
    ["an indirect jump instead of a return", "53 4889fb 90 5b ffe0", [["rdi", "rbx"], ["rsi"]]],
  ])("finds where arguments are: %s", (_, hex, expected) => {
    expect(keptAtNop(hex)).toEqual(expected);
  });

  it.each([
    ["jumps through a register", "53 4889fb 90 ffe0"],
    ["continues elsewhere", leaving],
  ])("gives up when the function %s", (_, hex) => {
    expect(keptAtNop(hex)).toBeNull();
  });

  it("follows an out-of-line part, and back", () => {
    const parts: number[] = [];
    const partAt = (hex: string) => (fromStartBytes: number) => {
      parts.push(fromStartBytes);
      return code(hex, fromStartBytes);
    };
    // ud2
    expect(keptAtNop(leaving, { partAt: partAt("0f0b") })).toEqual([["rdi", "rbx"], ["rsi"]]);
    // xor %ebx,%ebx · jmp 12
    expect(keptAtNop(leaving, { partAt: partAt("31db e9f9feffff") })).toEqual([["rdi"], ["rsi"]]);
    expect(parts).toEqual([268, 268]);
    expect(keptAtNop(leaving, { partAt: () => null })).toBeNull();
  });

  it("tracks the arguments of a call, and that a copy returns its target", () => {
    // lea 16(%rsi),%rdi · call · mov %rax,%rdi · add %rcx,%rdi · call
    const flow = followArguments(code("488d7e10 e800010000 4889c7 4801cf e800010000 c3"), { copied: 1 }) as ArgumentFlow;
    const calls = flow.instructions.flatMap(({ kind }, index) => (kind === "call" ? [index] : []));
    expect(calls.map((index) => [flow.comesFrom(index, "rdi", 1), flow.comesFrom(index, "rdi", 0)])).toEqual([
      [true, false],
      [true, false],
    ]);
    expect(calls.map((index) => flow.placesOf(index, 1, 8))).toEqual([["rsi"], []]);
  });

  it("terminates for arbitrary bytes", () => {
    const random = new SeededRandom(23);
    let followed = 0;
    for (let round = 0; round < 400; round++) {
      const bytes = Buffer.from(Array.from({ length: 60 }, () => random.below(256)));
      try {
        if (followArguments(decodeFunction(bytes), { copied: 3 }) !== null) followed++;
      } catch (error) {
        expect(error).toMatchObject({ code: "invalid" });
      }
    }
    expect(followed).toBeGreaterThan(0);
  });
});
