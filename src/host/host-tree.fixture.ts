import { spawnSync } from "node:child_process";
import { mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";

/** Text of a file, the target of a symbolic link, or an empty directory. */
export type TreeEntry = string | { link: string } | { directory: true };

export interface HostTree extends Disposable {
  root: string;
  write(entries: Record<string, TreeEntry>): void;
}

/** A directory that stands in for a host. */
export function createHostTree(entries: Record<string, TreeEntry> = {}): HostTree {
  const root = mkdtempSync(join(tmpdir(), "coral-host-"));
  const write = (more: Record<string, TreeEntry>): void => {
    for (const [path, entry] of Object.entries(more)) {
      const target = join(root, path);
      mkdirSync(typeof entry === "object" && "directory" in entry ? target : dirname(target), { recursive: true });
      if (typeof entry === "string") writeFileSync(target, entry);
      else if ("link" in entry) symlinkSync(entry.link, target);
    }
  };
  write(entries);
  return { root, write, [Symbol.dispose]: () => rmSync(root, { recursive: true, force: true }) };
}

/** mulberry32: the same numbers for the same seed, 0..1. */
export function seededRandom(seed: number): () => number {
  let state = seed;
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let value = Math.imul(state ^ (state >>> 15), 1 | state);
    value = (value + Math.imul(value ^ (value >>> 7), 61 | value)) ^ value;
    return ((value ^ (value >>> 14)) >>> 0) / 2 ** 32;
  };
}

const noise = [
  "\0",
  "\n",
  " ",
  "-1",
  "NaN",
  "1e999",
  "99999999999999999999999",
  "(",
  ")",
  ":",
  "[",
  "\\",
  "\u202e",
  "\ud800",
  "é",
  "/../",
  "0x10",
];

/** Damaged versions of real texts: cut, repeated, with noise put in; the last ones are noise only. */
export function* damagedTexts(texts: readonly string[], seed: number, count = 300): Generator<string> {
  const random = seededRandom(seed);
  const pick = <T>(list: readonly T[]): T => list[Math.floor(random() * list.length)] as T;
  for (let round = 0; round < count; round++) {
    let text = pick(texts);
    for (let step = 0; step < 4; step++) {
      const at = Math.floor(random() * (text.length + 1));
      const kind = random();
      if (kind < 0.3) text = text.slice(0, at);
      else if (kind < 0.7) text = text.slice(0, at) + pick(noise) + text.slice(at + Math.floor(random() * 4));
      else if (kind < 0.85) text = text.slice(at) + text.slice(0, at);
      else
        text = Array.from({ length: 40 }, () => (random() < 0.5 ? pick(noise) : String.fromCharCode(Math.floor(random() * 256)))).join("");
    }
    yield text;
  }
}

/** True when all numbers inside are finite and not negative. */
export function hasSaneNumbers(value: unknown): boolean {
  if (typeof value === "number") return Number.isFinite(value) && value >= 0;
  if (value instanceof Map) return [...value.entries()].every(hasSaneNumbers);
  if (typeof value === "object" && value !== null) return Object.values(value).every(hasSaneNumbers);
  return true;
}

/** Whether a tool to compare with is installed. */
export function hasCommand(name: string): boolean {
  return spawnSync(name, ["--version"], { stdio: "ignore" }).error === undefined;
}
