import { describe, expect, it } from "vitest";
import { SeededRandom } from "../base/seeded-random.fixture.ts";
import { decodeFunction } from "./disassembler.ts";
import { chooseEntrySite, chooseExitSites, costsNs, findCalls, findForwarding, findSpillFrame } from "./probe-site.ts";

const code = (hex: string) => decodeFunction(Buffer.from(hex.replaceAll(/\s+/g, ""), "hex"));
const c = { keep: ["rdi", "rsi", "rdx"] } as const;

/** sub $0x18,%rsp · mov %fs:0x28,%rax · mov %rax,8(%rsp) · xor %eax,%eax · test %edx,%edx · js … : a read function of a Debian library. */
const guarded = `
  4883ec18 64488b042528000000 4889442408 31c0 85d2 782f
  4889e1 4863d2 e83dfeffff 85c0 7e03 8b0424
  488b542408 64482b142528000000 7544 4883c418 31d2 31c9 31f6 31ff c3
  e8449ffeff 488d1505d50400 be4c070000 488d3d62cc0400 e82ca6feff 31c0 31d2 be0f010000 bf14000000 e849a4feff b8ffffffff ebac
  e83db1feff`;

describe("chooseEntrySite()", () => {
  it.each([
    ["push first", "55 4889e5 4156 c3", 0, costsNs.push],
    ["push of a high register", "4157 4156 c3", 0, costsNs.push],
    ["endbr64, then push", "f30f1efa 55 4889e5 c3", 4, costsNs.push],
    ["a test and a branch", "4885ff 0f8490030000 4155 c3", 3, costsNs.branch],
    ["a call behind a stack frame", "4883ec08 e8c7fdffff 31d2 c3", 4, costsNs.call],
    ["a five-byte nop", "0f1f440000 4889f8 c3", 0, costsNs.nop5],
    ["a guard of the stack", guarded, 22, costsNs.branch],
    ["Go's check of the stack", "493b6610 0f86c2030000 4883ec68 c3", 4, costsNs.branch],
    ["Go's check of a large frame", "4c8d642498 4d3b6610 0f8664070000 c3", 9, costsNs.branch],
  ])("chooses the cheap site at the start: %s", (_, hex, offsetBytes, costNs) => {
    expect(chooseEntrySite(code(hex), c)).toMatchObject({ offsetBytes, costNs });
  });

  it.each([
    ["an argument is overwritten", "4889f7 55 c3"],
    ["half of an argument is overwritten", "31d2 55 c3"],
    ["there is no cheap instruction", "4889f8 4829f0 c3"],
    ["a loop leads back to the site", "488b07 90 48ffc8 75fa c3"],
    ["the function ends before it", "488b07 c3 55"],
    ["only other instructions follow for a long way", `${"488b07".repeat(30)} 55 c3`],
  ])("stays at the first instruction when %s", (_, hex) => {
    expect(chooseEntrySite(code(hex), c)).toMatchObject({ offsetBytes: 0, costNs: costsNs.stepped });
  });

  it("keeps a return probe where the return address is on top of the stack", () => {
    expect(chooseEntrySite(code(guarded), { ...c, isForReturn: true })).toMatchObject({ offsetBytes: 0, isStackIntact: true });
    expect(chooseEntrySite(code("f30f1efa 55 c3"), { ...c, isForReturn: true })).toMatchObject({ offsetBytes: 4, isStackIntact: true });
    expect(chooseEntrySite(code(guarded), c)?.isStackIntact).toBe(false);
  });

  it("reports the condition under which Go restarts the function", () => {
    expect(chooseEntrySite(code("493b6610 0f86c2030000 c3"), c)?.condition).toBe(6);
    expect(chooseEntrySite(code("493b6610 7610 c3"), c)?.condition).toBe(6);
  });

  it("is null for no code at all", () => {
    expect(chooseEntrySite([], c)).toBeNull();
  });
});

describe("chooseExitSites()", () => {
  it("chooses the check of the stack guard, with the result in its register", () => {
    expect(chooseExitSites(code(guarded), "rax")).toMatchObject({
      kind: "before-return",
      sites: [{ offsetBytes: 56 }],
      costNs: costsNs.branch,
    });
  });

  it("chooses a nop between the result and the return", () => {
    expect(chooseExitSites(code("55 b801000000 5d 90 c3"), "rax")).toMatchObject({ kind: "before-return", sites: [{ offsetBytes: 7 }] });
  });

  it.each([
    ["the result is written behind the cheap instruction", "55 90 b801000000 c3", [7]],
    ["a jump targets the instruction after the cheap one", "55 85ff 7401 90 4889c1 c3", [9]],
    ["a branch leads to another return", "31c0 85ff 7501 c3 ffc0 c3", [6, 9]],
  ])("falls back to the returns when %s", (_, hex, offsets) => {
    const exits = chooseExitSites(code(hex), "rax");
    expect(exits?.kind).toBe("at-return");
    expect(exits?.sites.map(({ offsetBytes }) => offsetBytes)).toEqual(offsets);
    expect(exits?.costNs).toBe(costsNs.stepped);
  });

  it.each([
    ["an indirect jump", "4885ff 7502 ffe0 c3"],
    ["a jump to another function", "4885ff 7401 c3 e900010000"],
    ["no return", "55 e800000000"],
  ])("is null with %s", (_, hex) => {
    expect(chooseExitSites(code(hex), "rax")).toBeNull();
  });
});

describe("findForwarding() and findCalls()", () => {
  it("follows the path of the arguments", () => {
    expect(findForwarding(code("4883ec08 e8c7fdffff 31d2 c3"), ["rdi", "rsi"])).toBe(9 - 569);
    expect(findForwarding(code(guarded), ["rdi", "rsi"])).toBe(-416);
    expect(findForwarding(code("4889f7 e8c7fdffff c3"), ["rdi", "rsi"])).toBeNull();
    expect(findForwarding(code("ff5010 e8c7fdffff c3"), ["rdi", "rsi"])).toBeNull();
  });

  it("finds direct calls only", () => {
    const instructions = code("e8fb000000 ffd0 e8f4000000 c3");
    expect(findCalls(instructions, 256).map(({ offsetBytes }) => offsetBytes)).toEqual([0, 7]);
  });
});

describe("findSpillFrame()", () => {
  const slots = [
    { register: "rax", aboveEntryBytes: 8 },
    { register: "rbx", aboveEntryBytes: 16 },
  ] as const;
  /** cmp, jbe · sub $0x68,%rsp · mov %rbp,0x60(%rsp) · lea · mov %rbx,0x78(%rsp) · mov %rax,0x70(%rsp) · call · … · call */
  const older = "493b6610 0f86c2030000 4883ec68 48896c2460 488d6c2460 48895c2478 4889442470 e800000000 4883c468 c3 90 e800000000 c3";
  /** cmp, jbe · push %rbp · mov %rsp,%rbp · sub $0x58,%rsp · the same · call: Go since 1.21 */
  const newer = "493b6610 0f86c2030000 55 4889e5 4883ec58 48895c2470 4889442468 e800000000 c3";

  it.each([
    ["with a frame pointer kept in the frame", older, 38, 0x68],
    ["after an exit of the function", older, 43, 0x68],
    ["with a frame pointer pushed", newer, 28, 0x60],
  ])("finds the frame %s", (_, hex, place, frame) => {
    expect(findSpillFrame(code(hex), place, slots)).toBe(frame);
  });

  it.each([
    ["one register is not kept", "4883ec68 4889442470 e800000000", 9],
    ["it is kept elsewhere", "4883ec68 48895c2478 4889442440 e800000000", 14],
    ["the register was overwritten before", "31c0 4883ec68 48895c2478 4889442470 e800000000", 16],
    ["a call comes first", "4883ec68 48895c2478 e800000000 4889442470 e800000000", 19],
    ["the stack is moved by a register", "4829c4 4883ec68 48895c2478 4889442470 e800000000", 17],
    ["the stack grows once more", "4883ec68 48895c2478 4889442470 e800000000 50 e800000000", 20],
    ["the slot is not in it", "4883ec68 48895c2478 4889442470", 99],
  ])("is null when %s", (_, hex, place) => {
    expect(findSpillFrame(code(hex), place, slots)).toBeNull();
  });
});

describe("decodeFunction()", () => {
  it("respects instruction boundaries for any bytes", () => {
    const random = new SeededRandom(3);
    for (let round = 0; round < 200; round++) {
      const bytes = Buffer.from(Array.from({ length: 1 + random.below(80) }, () => random.below(256)));
      try {
        const instructions = decodeFunction(bytes);
        let next = 0;
        for (const one of instructions) {
          expect(one.offsetBytes).toBe(next);
          next += one.sizeBytes;
        }
        const starts = new Set(instructions.map(({ offsetBytes }) => offsetBytes));
        const site = chooseEntrySite(instructions, c);
        expect(site === null || starts.has(site.offsetBytes)).toBe(true);
        for (const exit of chooseExitSites(instructions, "rax")?.sites ?? []) expect(starts.has(exit.offsetBytes)).toBe(true);
      } catch (error) {
        // Bytes that are not instructions are rejected as a whole.
        expect(error).toMatchObject({ code: "invalid" });
      }
    }
  });
});
