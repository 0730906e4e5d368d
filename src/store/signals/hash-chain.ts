/**
 * A hash chain: each entry holds the hash of the one before. Changing, removing, adding or moving an entry requires rewriting all later
 * ones, and then no copy of a later hash matches.
 */

import { createHash } from "node:crypto";

/** A position in a chain. Entries count from 1; 0 is the position before the first. */
export interface ChainLink {
  entry: number;
  /** SHA-256 in hex. */
  hash: string;
}

/** The content of an entry. Null equals absent, so that entries stay valid when fields are added later. */
export type ChainFields = Readonly<Record<string, string | number | boolean | null>>;

/** An entry as stored. */
export interface ChainRow extends ChainLink {
  /** Its position in the store; in an intact chain equal to `entry`. */
  position: number;
  previousHash: string;
  /** All fields except the hashes; `entry` is one of them. */
  fields: ChainFields;
}

export type ChainProblemKind = "changed" | "missing" | "moved" | "repeated" | "unlinked" | "prefix-removed" | "cut" | "added" | "rewritten";

export interface ChainProblem {
  kind: ChainProblemKind;
  /** The first affected entry. */
  entry: number;
  /** Ready to print, without the name of the chain. */
  message: string;
}

export interface ChainReport {
  /** Number of checked entries. */
  entries: number;
  /** The first checked entry; 0 when there is none. */
  firstEntry: number;
  /** The last entry; for an empty chain its start. */
  head: ChainLink;
  problems: ChainProblem[];
  /** Number of problems not listed. */
  moreProblems: number;
}

/** The position before the first entry. Depends on the chain's id, so that entries of one chain cannot be moved to another. */
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

/** Checks entries one by one, in order of position. */
export class ChainCheck {
  readonly #start: ChainLink;
  #last: ChainLink | undefined;
  #firstEntry = 0;
  #firstPreviousHash = "";
  #entries = 0;
  readonly #gaps: { first: number; last: number; nextHash: string }[] = [];
  readonly #problems: ChainProblem[] = [];
  #moreProblems = 0;

  /** `start`: what the first entry must follow, if known: `chainStart`, or the end of an earlier check. */
  constructor(start: ChainLink) {
    this.#start = start;
  }

  add(row: ChainRow): void {
    this.#entries++;
    if (chainHash(row.previousHash, row.fields) !== row.hash) this.report("changed", row.entry, `entry ${row.entry} was changed`);
    if (row.position !== row.entry)
      this.report("moved", row.entry, `entry ${row.entry} was moved to the position of entry ${row.position}`);
    const last = this.#last ?? (row.entry === this.#start.entry + 1 ? this.#start : undefined);
    if (this.#last === undefined) {
      this.#firstEntry = row.entry;
      this.#firstPreviousHash = row.previousHash;
    }
    if (last !== undefined) this.#follow(last, row);
    this.#last = { entry: row.entry, hash: row.hash };
  }

  /**
   * `pruned` are positions up to which retention may have removed entries; anything else that is missing was removed. `expectedHead` is
   * what the chain is known to have reached; its hash is empty when only the number is known.
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
      this.report("rewritten", head.entry, `entry ${head.entry} at the end differs from its recorded hash: the chain was rewritten`);
    const problems = this.#problems.toSorted((a, b) => a.entry - b.entry);
    return { entries: this.#entries, firstEntry: this.#firstEntry, head, problems, moreProblems: this.#moreProblems };
  }

  report(kind: ChainProblemKind, entry: number, message: string): void {
    if (this.#problems.length < maxProblems) this.#problems.push({ kind, entry, message });
    else this.#moreProblems++;
  }

  #follow(last: ChainLink, row: ChainRow): void {
    if (row.entry === last.entry) return this.report("repeated", row.entry, `entry ${row.entry} exists twice: one was added`);
    if (row.entry < last.entry) return this.report("moved", row.entry, `entry ${row.entry} is stored after entry ${last.entry}`);
    if (row.entry > last.entry + 1) {
      if (this.#gaps.length < maxProblems) this.#gaps.push({ first: last.entry + 1, last: row.entry - 1, nextHash: row.previousHash });
      else this.#moreProblems++;
      return;
    }
    if (row.previousHash !== last.hash)
      this.report("unlinked", row.entry, `entry ${row.entry} does not follow the stored entry ${last.entry}`);
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
