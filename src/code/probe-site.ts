/**
 * Chooses the cheapest instruction of a function for a probe. The kernel emulates a few kinds of instructions and single-steps a copy of all others, which
 * takes ten to twenty times as long (measured on a Linux 6.18 guest; less on hardware). So a probe moves from the first instruction to a cheaper one nearby,
 * as long as the values it reads are in their registers there.
 */

import { type MachineInstruction, type RegisterName } from "./disassembler.ts";

export interface ProbeSite {
  /** From the start of the function; always the start of an instruction. */
  offsetBytes: number;
  /** Length of the instruction; its bytes are compared before attaching. */
  sizeBytes: number;
  /** Cost of one hit without the BPF program; an estimate from `costsNs`. */
  costNs: number;
  /** The return address is on top of the stack, so that a return probe may be set here. */
  isStackIntact: boolean;
  /** Set at a branch: its condition. 6 is "below or equal", which Go takes to grow the stack, after which the function starts again. */
  condition: number | null;
}

/** By kind of instruction, with an empty program, nanoseconds. */
export const costsNs = { nop5: 310, nop: 680, push: 500, branch: 720, jump: 720, call: 750, stepped: 11_000, returnProbe: 400 } as const;

/** How far from its start the entry probe may move. */
const maxSlideBytes = 64;

/**
 * The cheapest site near the start of a function where the registers still hold the arguments. Falls back to the first instruction, which
 * always works but may be expensive. `isForReturn` requires a site where a return probe works too.
 */
export function chooseEntrySite(
  instructions: readonly MachineInstruction[],
  options: { keep: readonly RegisterName[]; isForReturn?: boolean },
): ProbeSite | null {
  const [first] = instructions;
  if (first === undefined) return null;
  const targets = innerTargets(instructions);
  const written = new Set<RegisterName>();
  let best = siteAt(first, true);
  for (const instruction of instructions) {
    if (instruction.offsetBytes > maxSlideBytes) break;
    // A jump target inside the function: it may run more than once, or be skipped.
    if (instruction !== first && targets.has(instruction.offsetBytes)) break;
    if (options.keep.some((register) => written.has(register))) break;
    const isStackIntact = !written.has("rsp");
    if (options.isForReturn === true && !isStackIntact) break;
    const site = siteAt(instruction, isStackIntact);
    if (site.costNs < best.costNs) best = site;
    if (instruction.isEmulated || !isStraight(instruction)) break;
    for (const register of instruction.writes) written.add(register);
  }
  return best;
}

export interface ExitSites {
  /** `before-return`: cheap instructions that every return passes; `at-return`: the return instructions themselves, which are single-stepped. */
  kind: "before-return" | "at-return";
  sites: ProbeSite[];
  /** Of one return. */
  costNs: number;
}

/**
 * Instructions that the function passes exactly once when it returns, with the result in its register. Null when it also leaves by a tail call, which only a
 * return probe sees.
 */
export function chooseExitSites(instructions: readonly MachineInstruction[], result: RegisterName): ExitSites | null {
  if (leavesByJump(instructions)) return null;
  const targets = innerTargets(instructions);
  const returns = instructions.flatMap((instruction, index) => (instruction.kind === "return" ? [index] : []));
  if (returns.length === 0) return null;
  const cheap = returns.map((index) => siteBeforeReturn(instructions, targets, index, result));
  if (cheap.every((site) => site !== null)) return exits("before-return", cheap);
  return exits(
    "at-return",
    returns.map((index) => siteAt(instructions[index] as MachineInstruction, false)),
  );
}

function exits(kind: ExitSites["kind"], sites: ProbeSite[]): ExitSites {
  return { kind, sites, costNs: Math.max(...sites.map(({ costNs }) => costNs)) };
}

/** Where a function is called directly, such as memcpy(). */
export function findCalls(instructions: readonly MachineInstruction[], targetBytes: number): ProbeSite[] {
  return instructions.filter((one) => one.kind === "call" && one.targetBytes === targetBytes).map((one) => siteAt(one, false));
}

/** The first function called or tail-called from straight-line code at the start, while the registers still hold the arguments; offset from the start. */
export function findForwarding(instructions: readonly MachineInstruction[], keep: readonly RegisterName[]): number | null {
  const end = endOf(instructions);
  const written = new Set<RegisterName>();
  for (const instruction of instructions) {
    if (keep.some((register) => written.has(register))) return null;
    const { kind, targetBytes } = instruction;
    const isOutside = targetBytes !== null && (targetBytes < 0 || targetBytes >= end);
    if ((kind === "call" || kind === "jump") && isOutside) return targetBytes;
    // Assume the branch is not taken: the other path handles errors.
    if (kind !== "branch" && !isStraight(instruction)) return null;
    for (const register of instruction.writes) written.add(register);
  }
  return null;
}

/**
 * The frame size at an instruction, if by then the registers have been saved above the return address at the given distances and stay there: that is where Go
 * keeps arguments across calls. Null when that is not certain.
 */
export function findSpillFrame(
  instructions: readonly MachineInstruction[],
  placeBytes: number,
  slots: readonly { register: RegisterName; aboveEntryBytes: number }[],
): number | null {
  const written = new Set<RegisterName>();
  const kept = new Set<RegisterName>();
  let frameBytes = 0;
  let isSettled = false;
  for (const instruction of instructions) {
    if (instruction.offsetBytes >= placeBytes) return kept.size === slots.length ? frameBytes : null;
    const { kind, spill, stackBytes } = instruction;
    if (stackBytes === null) return null;
    // After the last save, only epilogues may change the stack.
    if (isSettled && stackBytes > 0) return null;
    if (!isSettled) frameBytes += stackBytes;
    if (!isSettled && spill !== null && !written.has(spill.register)) {
      const slot = slots.find(
        ({ register, aboveEntryBytes }) => register === spill.register && spill.aboveTopBytes - frameBytes === aboveEntryBytes,
      );
      if (slot !== undefined) kept.add(slot.register);
    }
    // Straight-line code from the entry, except for the stack check before the frame.
    if (kind === "call" || kind === "jump" || (kind === "branch" && frameBytes > 0)) isSettled = true;
    if (isSettled && kept.size < slots.length) return null;
    for (const register of instruction.writes) written.add(register);
  }
  return null;
}

/** Walks back from a return through straight-line code that is not a jump target and leaves the result unchanged. */
function siteBeforeReturn(
  instructions: readonly MachineInstruction[],
  targets: ReadonlySet<number>,
  returnIndex: number,
  result: RegisterName,
): ProbeSite | null {
  for (let index = returnIndex; index > 0; index--) {
    if (targets.has((instructions[index] as MachineInstruction).offsetBytes)) return null;
    const previous = instructions[index - 1] as MachineInstruction;
    if (previous.isEmulated && (previous.kind === "nop" || previous.kind === "nop5" || isGuard(instructions, previous))) {
      return siteAt(previous, false);
    }
    if (previous.writes.has(result) || !isStraight(previous)) return null;
  }
  return null;
}

/** A branch to a call that does not return, such as the stack guard's check: the last instruction, or padding after it. */
function isGuard(instructions: readonly MachineInstruction[], branch: MachineInstruction): boolean {
  if (branch.kind !== "branch") return false;
  const index = instructions.findIndex((one) => one.offsetBytes === branch.targetBytes);
  if (index < 0 || instructions[index]?.kind !== "call") return false;
  return instructions.slice(index + 1).every((one) => one.kind === "nop" || one.kind === "nop5");
}

function siteAt(instruction: MachineInstruction, isStackIntact: boolean): ProbeSite {
  const { offsetBytes, sizeBytes, condition } = instruction;
  return { offsetBytes, sizeBytes, costNs: costOf(instruction), isStackIntact, condition };
}

function costOf({ isEmulated, kind }: MachineInstruction): number {
  if (!isEmulated) return costsNs.stepped;
  return kind === "return" || kind === "indirect-jump" || kind === "other" ? costsNs.stepped : costsNs[kind];
}

function isStraight({ kind }: MachineInstruction): boolean {
  return kind === "nop" || kind === "nop5" || kind === "push" || kind === "other";
}

/** Targets inside the function of its own branches and jumps. Jump tables are not followed: see `leavesByJump`. */
function innerTargets(instructions: readonly MachineInstruction[]): Set<number> {
  const targets = new Set<number>();
  for (const { kind, targetBytes } of instructions) {
    if ((kind === "branch" || kind === "jump") && targetBytes !== null) targets.add(targetBytes);
  }
  return targets;
}

/** An indirect jump may be a tail call or a jump table; neither can be followed. */
function leavesByJump(instructions: readonly MachineInstruction[]): boolean {
  const end = endOf(instructions);
  return instructions.some(
    ({ kind, targetBytes }) =>
      kind === "indirect-jump" ||
      ((kind === "jump" || kind === "branch") && targetBytes !== null && (targetBytes < 0 || targetBytes >= end)),
  );
}

function endOf(instructions: readonly MachineInstruction[]): number {
  const last = instructions.at(-1);
  return last === undefined ? 0 : last.offsetBytes + last.sizeBytes;
}
