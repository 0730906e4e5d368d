/**
 * A chain of entries, each of which holds the hash of the one before: changing, removing, adding or moving one means rewriting all that follow,
 * and then no copy of any later hash agrees any more.
 */

import { createHash } from "node:crypto";

/** A place in a chain. Entries count from 1; 0 is the place before the first. */
export interface ChainLink {
  entry: number;
  /** SHA-256, hex. */
  hash: string;
}

/** What an entry says. Null is the same as absent, so that entries stay valid when fields are added later. */
export type ChainFields = Readonly<Record<string, string | number | boolean | null>>;

/** An entry as it is stored. */
export interface ChainRow extends ChainLink {
  /** Where the store keeps it; in an untouched chain the same number as `entry`. */
  position: number;
  previousHash: string;
  /** All but the hashes; `entry` is one of them. */
  fields: ChainFields;
}

export type ChainProblemKind = "changed" | "missing" | "moved" | "repeated" | "unlinked" | "prefix-removed" | "cut" | "added" | "rewritten";

export interface ChainProblem {
  kind: ChainProblemKind;
  /** The first entry that it concerns. */
  entry: number;
  /** Ready to print, without the name of the chain. */
  message: string;
}

export interface ChainReport {
  /** Entries looked at. */
  entries: number;
  /** Of those; 0 when there is none. */
  firstEntry: number;
  /** The last one; of an empty chain its beginning. */
  head: ChainLink;
  problems: ChainProblem[];
  /** Problems found but not listed. */
  moreProblems: number;
}

/** The place before the first entry. It depends on the chain's id, so that entries of one cannot be put into another. */
export function chainStart(chainId: string): ChainLink {
  return { entry: 0, hash: sha256(`coral-chain/1\n${chainId}`) };
}

export function chainHash(previousHash: string, fields: ChainFields): string {
  const stated = Object.entries(fields)
    .filter(([, value]) => value !== null)
    .sort(([a], [b]) => (a < b ? -1 : 1));
  return sha256(`${previousHash}\n${JSON.stringify(stated)}`);
}

function sha256(text: string): string {
  return createHash("sha256").update(text).digest("hex");
}

const maxProblems = 50;

/** Checks entries one by one, in the order of their positions. */
export class ChainCheck {
  readonly #start: ChainLink;
  #last: ChainLink | undefined;
  #firstEntry = 0;
  #firstPreviousHash = "";
  #entries = 0;
  readonly #gaps: { first: number; last: number; nextHash: string }[] = [];
  readonly #problems: ChainProblem[] = [];
  #moreProblems = 0;

  /** `start`: what the first entry has to follow, when that is known: `chainStart`, or where an earlier check ended. */
  constructor(start: ChainLink) {
    this.#start = start;
  }

  add(row: ChainRow): void {
    this.#entries++;
    if (chainHash(row.previousHash, row.fields) !== row.hash) this.report("changed", row.entry, `entry ${row.entry} was changed`);
    if (row.position !== row.entry)
      this.report("moved", row.entry, `entry ${row.entry} was moved: it lies where entry ${row.position} should`);
    const last = this.#last ?? (row.entry === this.#start.entry + 1 ? this.#start : undefined);
    if (this.#last === undefined) {
      this.#firstEntry = row.entry;
      this.#firstPreviousHash = row.previousHash;
    }
    if (last !== undefined) this.#follow(last, row);
    this.#last = { entry: row.entry, hash: row.hash };
  }

  /**
   * `pruned` are places that retention has written down: entries up to there may be gone. What is missing without one of them was removed.
   * `expectedHead` is what the chain is known to have reached; an empty hash when only its number is known.
   */
  finish(pruned: readonly ChainLink[] = [], expectedHead?: ChainLink): ChainReport {
    const head = this.#last ?? this.#start;
    const before = this.#firstEntry - 1;
    if (this.#entries > 0 && before !== this.#start.entry) this.#checkPrefix(before, pruned);
    for (const { first, last, nextHash } of this.#gaps) {
      if (!covers(pruned, { entry: last, hash: nextHash }))
        this.report("missing", first, `${rangeText(first, last)} ${wasRemoved(first, last)}`);
    }
    if (expectedHead && expectedHead.entry > head.entry && !(this.#entries === 0 && covers(pruned, expectedHead)))
      this.report(
        "cut",
        head.entry + 1,
        `${rangeText(head.entry + 1, expectedHead.entry)} at the end ${wasRemoved(head.entry + 1, expectedHead.entry)}`,
      );
    else if (expectedHead && expectedHead.entry === head.entry && expectedHead.hash !== "" && expectedHead.hash !== head.hash)
      this.report("rewritten", head.entry, `the chain ends with another entry ${head.entry} than it did: it was rewritten`);
    const problems = this.#problems.toSorted((a, b) => a.entry - b.entry);
    return { entries: this.#entries, firstEntry: this.#firstEntry, head, problems, moreProblems: this.#moreProblems };
  }

  report(kind: ChainProblemKind, entry: number, message: string): void {
    if (this.#problems.length < maxProblems) this.#problems.push({ kind, entry, message });
    else this.#moreProblems++;
  }

  #follow(last: ChainLink, row: ChainRow): void {
    if (row.entry === last.entry) return this.report("repeated", row.entry, `entry ${row.entry} is there twice: one was added`);
    if (row.entry < last.entry) return this.report("moved", row.entry, `entry ${row.entry} lies after entry ${last.entry}`);
    if (row.entry > last.entry + 1) {
      if (this.#gaps.length < maxProblems) this.#gaps.push({ first: last.entry + 1, last: row.entry - 1, nextHash: row.previousHash });
      else this.#moreProblems++;
      return;
    }
    if (row.previousHash !== last.hash)
      this.report("unlinked", row.entry, `entry ${row.entry} follows another entry ${last.entry} than the one that is there`);
  }

  #checkPrefix(before: number, pruned: readonly ChainLink[]): void {
    const known = pruned.filter(({ entry }) => entry === before);
    if (known.some(({ hash }) => hash === this.#firstPreviousHash)) return;
    const range = rangeText(this.#start.entry + 1, before);
    const removed = wasRemoved(this.#start.entry + 1, before);
    if (known.length > 0) this.report("unlinked", this.#firstEntry, `entry ${this.#firstEntry} does not follow what was pruned before it`);
    else this.report("prefix-removed", this.#start.entry + 1, `${range} ${removed}, and not by retention`);
  }
}

function covers(pruned: readonly ChainLink[], head: ChainLink): boolean {
  return pruned.some(({ entry, hash }) => entry === head.entry && hash === head.hash);
}

function rangeText(first: number, last: number): string {
  return first === last ? `entry ${first}` : `entries ${first} to ${last}`;
}

function wasRemoved(first: number, last: number): string {
  return first === last ? "was removed" : "were removed";
}
