/**
 * Where in a function a probe costs least. The kernel carries out a few kinds of instructions by itself and steps through a copy of all others, which
 * takes ten to twenty times as long (measured on a guest of Linux 6.18; less on hardware). So a probe is moved from the first instruction to one
 * near it, as long as what it is to read is still, or already, in its register.
 */

import { type MachineInstruction, type RegisterName } from "./disassembler.ts";

export interface ProbeSite {
  /** From the start of the function; always the start of an instruction. */
  offsetBytes: number;
  /** The bytes that must be there, to be compared with what is to be probed. */
  sizeBytes: number;
  /** Time that one hit takes, without the program. An estimate: see `costsNs`. */
  costNs: number;
  /** The return address is on top of the stack, so that a return probe may be set here. */
  isStackIntact: boolean;
  /** Set at a branch: its condition, 6 being "below or equal", which Go takes when the stack has to grow, to begin again after that. */
  condition: number | null;
}

/** By kind of instruction, with an empty program, nanoseconds. */
export const costsNs = { nop5: 310, nop: 680, push: 500, branch: 720, jump: 720, call: 750, stepped: 11_000, returnProbe: 400 } as const;

/** How far from its start a function may be entered. */
const maxSlideBytes = 64;

/**
 * The cheapest place at the start of a function where the registers still hold the arguments. Falls back to the first instruction, which always
 * works and may be expensive. `isForReturn` asks for a place where a return probe works too.
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
    // Jumped to from inside the function: it may run more than once, or not at all before the place.
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
  /** `before-return`: cheap instructions that each return goes through; `at-return`: the return instructions, which are stepped through. */
  kind: "before-return" | "at-return";
  sites: ProbeSite[];
  /** Of one return. */
  costNs: number;
}

/**
 * Places that a function passes exactly once when it returns, with the result in its register. Null when it also leaves by jumping into another
 * function: only a return probe sees that.
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

/** Where a function is called directly, such as one that copies memory. */
export function findCalls(instructions: readonly MachineInstruction[], targetBytes: number): ProbeSite[] {
  return instructions.filter((one) => one.kind === "call" && one.targetBytes === targetBytes).map((one) => siteAt(one, false));
}

/** The first function that is called, or jumped to, from straight-line code at the start while the registers still hold the arguments; from its start. */
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
 * The size of the frame at a place of the function, if by then the registers were kept on the stack above the return address, each at the distance
 * that is given for it, and stay there: where Go keeps arguments across calls. Null when that is not certain.
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
    // Once everything is kept, only ends of the function, and what they undo, may change the stack.
    if (isSettled && stackBytes > 0) return null;
    if (!isSettled) frameBytes += stackBytes;
    if (!isSettled && spill !== null && !written.has(spill.register)) {
      const slot = slots.find(
        ({ register, aboveEntryBytes }) => register === spill.register && spill.aboveTopBytes - frameBytes === aboveEntryBytes,
      );
      if (slot !== undefined) kept.add(slot.register);
    }
    // Straight-line code from the entry on, but for the check of the stack before the frame is made.
    if (kind === "call" || kind === "jump" || (kind === "branch" && frameBytes > 0)) isSettled = true;
    if (isSettled && kept.size < slots.length) return null;
    for (const register of instruction.writes) written.add(register);
  }
  return null;
}

/** Walks back from a return over straight-line code that is not a jump target and does not change the result. */
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

/** A branch to a call that does not return, as the check of the stack's guard is: the last instruction, or filling behind it. */
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

/** Places inside the function that its own branches and jumps lead to. Tables of jumps are not followed: see `leavesByJump`. */
function innerTargets(instructions: readonly MachineInstruction[]): Set<number> {
  const targets = new Set<number>();
  for (const { kind, targetBytes } of instructions) {
    if ((kind === "branch" || kind === "jump") && targetBytes !== null) targets.add(targetBytes);
  }
  return targets;
}

/** An indirect jump may be a call of another function in last place or a table of cases; neither can be followed. */
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
