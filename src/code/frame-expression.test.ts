import { describe, expect, it } from "vitest";
import { SeededRandom } from "../base/seeded-random.fixture.ts";
import { evaluateFrameExpression } from "./frame-expression.ts";

const registers = new Float64Array(17).fill(Number.NaN);
registers[7] = 0x7000;
registers[16] = 0x1238;
const memory = (address: number): number => (address === 0x7010 ? 0x55 : Number.NaN);
const evaluate = (...bytes: number[]): number => evaluateFrameExpression(Buffer.from(bytes), registers, memory);

describe("evaluateFrameExpression()", () => {
  it.for([
    ["register plus offset", [0x77, 0x08], 0x7008],
    ["register minus offset", [0x77, 0x78], 0x6ff8],
    ["memory at a register", [0x77, 0x10, 0x06], 0x55],
    // rsp + 8 + (((rip & 15) >= 11) << 3): the expression of every PLT stub.
    ["a PLT stub", [0x77, 0x08, 0x80, 0x00, 0x3f, 0x1a, 0x38, 0x2a, 0x33, 0x24, 0x22], 0x7010],
    ["constants", [0x08, 200, 0x23, 0x02], 202],
  ] as const)("computes %s", ([, bytes, expected]) => {
    expect(evaluate(...bytes)).toBe(expected);
  });

  it("starts with the CFA on the stack if there is one", () => {
    expect(evaluateFrameExpression(Buffer.from([0x23, 16]), registers, memory, 1_000)).toBe(1_016);
  });

  it.for([[[0x22]], [[0x06]], [[0x77, 0x80]], [[0xff]], [[]], [new Array<number>(100).fill(0x30)]] as const)(
    "gives up on %j",
    ([bytes]) => {
      expect(evaluate(...bytes)).toBeNaN();
    },
  );

  it("survives random bytes", () => {
    const random = new SeededRandom(3);
    for (let round = 0; round < 5_000; round++) {
      const bytes = Buffer.from(Array.from({ length: random.below(24) }, () => random.below(256)));
      expect(typeof evaluateFrameExpression(bytes, registers, memory)).toBe("number");
    }
  });
});
