/** Results of trials that several runs share: each run adds its own and resumes where the previous one stopped. */

import { existsSync, mkdirSync, readFileSync, renameSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import type { TrialResult } from "./watch-diagnosis.ts";

export class KeptTrials {
  readonly results: TrialResult[];
  readonly #folder: string | undefined;
  readonly #seed: number;

  /** Without a folder they are kept in memory only. */
  constructor(folder: string | undefined, seed: number) {
    this.#folder = folder;
    this.#seed = seed;
    this.results = [];
    if (folder === undefined) return;
    mkdirSync(folder, { recursive: true });
    if (!existsSync(this.#file)) return;
    const kept = JSON.parse(readFileSync(this.#file, "utf8")) as { seed: number; results: TrialResult[] };
    if (kept.seed !== seed) throw new Error(`${folder} is of seed ${kept.seed}: give --seed ${kept.seed}, or another folder`);
    this.results = kept.results;
  }

  get #file(): string {
    return join(this.#folder ?? "", "trials.json");
  }

  /** How often it was tried; what was skipped was not. */
  timesTried(name: string): number {
    return this.results.filter((one) => one.name === name && one.skipped === undefined).length;
  }

  add(result: TrialResult): void {
    this.results.push(result);
    if (this.#folder === undefined) return;
    writeFileSync(`${this.#file}.new`, JSON.stringify({ seed: this.#seed, results: this.results }, null, 1));
    renameSync(`${this.#file}.new`, this.#file);
  }
}
