/** Functions and call paths of a CPU profile, computed from its stacks. */

import { type FrameKind, isShareChange, type ProfileFacts, type ProfileStackFact, type StackFrame } from "../../model/profiles.ts";
import type { ProfileFunction, ProfileNode } from "../schemas/profile.ts";

export type FunctionOrder = "self" | "total" | "change";

/** Call paths below this share of all samples get no line. */
const leastShare = 0.005;
const maxDepth = 96;

interface Counts {
  now: number;
  before: number;
}

interface Sums {
  name: string;
  file: string;
  kind: FrameKind;
  self: Counts;
  total: Counts;
  cpuUs: number;
}

export function functionsOf(facts: ProfileFacts, hasBaseline: boolean, order: FunctionOrder): ProfileFunction[] {
  const sums = new Map<string, Sums>();
  for (const stack of facts.stacks) {
    const top = stack.frames.at(-1);
    const seen = new Set<string>();
    for (const frame of stack.frames) {
      const key = keyOf(frame);
      // A recursive function counts once per stack.
      if (seen.has(key)) continue;
      seen.add(key);
      add(sumsOf(sums, key, frame).total, stack);
    }
    if (top === undefined) continue;
    const sum = sumsOf(sums, keyOf(top), top);
    add(sum.self, stack);
    sum.cpuUs += stack.cpuUs;
  }
  return [...sums.values()].map((sum) => functionOf(sum, facts, hasBaseline)).sort(comparing(order));
}

function functionOf({ name, file, kind, self, total, cpuUs }: Sums, facts: ProfileFacts, hasBaseline: boolean): ProfileFunction {
  const now = { self: shareOf(self.now, facts.samples), total: shareOf(total.now, facts.samples) };
  const before = { self: shareOf(self.before, facts.samplesBefore), total: shareOf(total.before, facts.samplesBefore) };
  const isComparable = hasBaseline && facts.samplesBefore > 0;
  const change = isComparable ? now.total - before.total : null;
  const isSignificant =
    change !== null && isShareChange({ part: total.now, whole: facts.samples }, { part: total.before, whole: facts.samplesBefore });
  return { name, file, kind, ...now, cpuMs: cpuUs / 1_000, before: isComparable ? before : null, change, significant: isSignificant };
}

function comparing(order: FunctionOrder): (a: ProfileFunction, b: ProfileFunction) => number {
  const byName = (a: ProfileFunction, b: ProfileFunction): number => (a.name < b.name ? -1 : 1);
  switch (order) {
    case "self":
      return (a, b) => b.self - a.self || b.total - a.total || byName(a, b);
    case "total":
      return (a, b) => b.total - a.total || b.self - a.self || byName(a, b);
    case "change":
      return (a, b) =>
        Number(b.significant) - Number(a.significant) ||
        Math.abs(b.change ?? 0) - Math.abs(a.change ?? 0) ||
        b.self - a.self ||
        byName(a, b);
  }
}

interface Branch extends Counts {
  frame: StackFrame;
  selfNow: number;
  children: Map<string, Branch>;
}

/** Call paths, outermost first; at most `limit` lines, without those that have few samples. */
export function treeOf(facts: ProfileFacts, hasBaseline: boolean, limit: number): ProfileNode[] {
  const root = branchOf(["", "", "unknown"]);
  for (const stack of facts.stacks) {
    let branch = root;
    for (const frame of stack.frames.slice(0, maxDepth)) {
      const key = keyOf(frame);
      let child = branch.children.get(key);
      if (child === undefined) branch.children.set(key, (child = branchOf(frame)));
      add(child, stack);
      branch = child;
    }
    branch.selfNow += stack.samples;
  }
  const isComparable = hasBaseline && facts.samplesBefore > 0;
  const nodes: ProfileNode[] = [];
  const visit = (branch: Branch, depth: number): void => {
    for (const child of [...branch.children.values()].sort((a, b) => b.now - a.now || (a.frame[0] < b.frame[0] ? -1 : 1))) {
      const total = shareOf(child.now, facts.samples);
      if (total < leastShare || nodes.length >= limit) return;
      const [name, file, kind] = child.frame;
      const change = isComparable ? total - shareOf(child.before, facts.samplesBefore) : null;
      nodes.push({ depth, name, file, kind, total, self: shareOf(child.selfNow, facts.samples), change });
      visit(child, depth + 1);
    }
  };
  visit(root, 0);
  return nodes;
}

/** Folded stacks, the input of flame graph tools: `main;handle;parse 12`. */
export function foldedStacks(facts: ProfileFacts): { frames: string[]; samples: number }[] {
  return facts.stacks.flatMap(({ frames, samples }) => (samples === 0 ? [] : [{ frames: frames.map(([name]) => name), samples }]));
}

/** Shares of samples with a complete stack, and of frames with a name. */
export function qualityOf(facts: ProfileFacts): { whole: number; named: number } {
  let [whole, frames, named] = [0, 0, 0];
  for (const stack of facts.stacks) {
    if (stack.isWhole) whole += stack.samples;
    for (const frame of stack.frames) {
      frames += stack.samples;
      if (isNamed(frame)) named += stack.samples;
    }
  }
  return { whole: shareOf(whole, facts.samples), named: shareOf(named, frames) };
}

function isNamed([name, file, kind]: StackFrame): boolean {
  return kind !== "unknown" && name !== "[kernel]" && !name.startsWith(`${file}+0x`);
}

function branchOf(frame: StackFrame): Branch {
  return { frame, now: 0, before: 0, selfNow: 0, children: new Map() };
}

function sumsOf(sums: Map<string, Sums>, key: string, [name, file, kind]: StackFrame): Sums {
  let sum = sums.get(key);
  if (sum === undefined) sums.set(key, (sum = { name, file, kind, self: { now: 0, before: 0 }, total: { now: 0, before: 0 }, cpuUs: 0 }));
  return sum;
}

function keyOf([name, file]: StackFrame): string {
  return `${name}\n${file}`;
}

function add(counts: Counts, { samples, samplesBefore }: ProfileStackFact): void {
  counts.now += samples;
  counts.before += samplesBefore;
}

function shareOf(part: number, whole: number): number {
  return whole === 0 ? 0 : part / whole;
}
