/** The address ranges that the operator keeps in `<colony directory>/ranges`, loaded again when a file changes. */

import { readdir, readFile, stat } from "node:fs/promises";
import { join } from "node:path";
import type { Clock } from "../../../base/clock.ts";
import { CoralError } from "../../../base/errors.ts";
import type { Logger } from "../../../base/log.ts";
import { maxRangesFileBytes, type ProviderRanges, parseProviderRanges, type RangeFormat } from "../../../tools/index.ts";
import { PrefixTable } from "./prefix-table.ts";

/** Files are looked at this often at the most; no notifications, which network and container file systems do not send. */
const lookIntervalMs = 30_000;
const maxFiles = 64;
const maxTotalPrefixes = 1_000_000;
/** Left by editors and unfinished downloads, and what people write about the files. */
const ignored = /^\.|~$|\.(?:tmp|part|bak|md)$/;

export interface RangesDirectoryOptions {
  directory: string;
  clock: Clock;
  log: Logger;
}

/** One file as it was last seen. */
export interface RangesFile {
  file: string;
  /** Of the last version that could be read; absent when there was none. */
  provider?: string;
  format?: RangeFormat;
  prefixes: number;
  publishedAtMs?: number;
  modifiedAtMs: number;
  /** Why the newest version is not in use. */
  problem?: string;
}

interface LoadedFile {
  /** Changes with every write. */
  stamp: string;
  modifiedAtMs: number;
  good?: ProviderRanges;
  problem?: string;
  /** Whether the files before it filled the table. */
  isLeftOut?: boolean;
}

/** Holds no descriptors and no timers; whoever uses it calls `look` now and then. */
export class RangesDirectory {
  readonly #directory: string;
  readonly #clock: Clock;
  readonly #log: Logger;
  readonly #files = new Map<string, LoadedFile>();
  #table = new PrefixTable([]);
  #lastLookMs = Number.NEGATIVE_INFINITY;
  #looking: Promise<boolean> | undefined;
  #problem: string | undefined;

  constructor({ directory, clock, log }: RangesDirectoryOptions) {
    this.#directory = directory;
    this.#clock = clock;
    this.#log = log;
  }

  get table(): PrefixTable {
    return this.#table;
  }

  /** By name. */
  get files(): RangesFile[] {
    return [...this.#files]
      .sort(([left], [right]) => (left < right ? -1 : 1))
      .map(([file, loaded]) => ({ file, ...loaded, problem: problemOf(file, loaded) }))
      .map(({ file, good, modifiedAtMs, problem }) => ({
        file,
        prefixes: good?.count ?? 0,
        modifiedAtMs,
        ...(good ? { provider: good.provider, format: good.format } : {}),
        ...(good?.publishedAtMs === undefined ? {} : { publishedAtMs: good.publishedAtMs }),
        ...(problem === undefined ? {} : { problem }),
      }));
  }

  /** Everything that keeps ranges from being used, for people. */
  get problems(): string[] {
    const own = this.#problem === undefined ? [] : [this.#problem];
    return [...own, ...this.files.flatMap(({ problem }) => problem ?? [])];
  }

  /** Looks for changes unless that was done lately; true when the table changed. Never rejects: what is wrong is in `problems`. */
  look(): Promise<boolean> {
    if (this.#looking) return this.#looking;
    if (this.#clock.monotonicMs() - this.#lastLookMs < lookIntervalMs) return Promise.resolve(false);
    return this.refresh();
  }

  /** As `look`, at once. */
  refresh(): Promise<boolean> {
    this.#looking ??= this.#refresh().finally(() => {
      this.#looking = undefined;
      this.#lastLookMs = this.#clock.monotonicMs();
    });
    return this.#looking;
  }

  async #refresh(): Promise<boolean> {
    const names = await this.#names();
    if (!names) return false;
    let isChanged = false;
    for (const name of this.#files.keys()) {
      if (names.includes(name)) continue;
      this.#files.delete(name);
      isChanged = true;
      this.#log.info(`Ranges file "${name}" is gone; its ranges are no longer used`);
    }
    for (const name of names) if (await this.#refreshFile(name)) isChanged = true;
    if (isChanged) this.#rebuild();
    return isChanged;
  }

  /** Undefined when the directory cannot be read: then all stays as it is. */
  async #names(): Promise<string[] | undefined> {
    try {
      const names = (await readdir(this.#directory)).filter((name) => !ignored.test(name)).sort();
      this.#setProblem(
        names.length > maxFiles ? `Cannot use all of "${this.#directory}": it holds more than ${maxFiles} files` : undefined,
      );
      return names.slice(0, maxFiles);
    } catch (error) {
      const isAbsent = (error as NodeJS.ErrnoException).code === "ENOENT";
      this.#setProblem(isAbsent ? undefined : `Cannot read directory "${this.#directory}": ${CoralError.from(error).message}`);
      return isAbsent ? [] : undefined;
    }
  }

  #setProblem(problem: string | undefined): void {
    if (problem !== undefined && problem !== this.#problem) this.#log.warn(problem);
    this.#problem = problem;
  }

  async #refreshFile(name: string): Promise<boolean> {
    const before = this.#files.get(name);
    const path = join(this.#directory, name);
    // A file that went away since the directory was read is handled by the next look.
    const found = await stat(path).catch(() => undefined);
    if (!found?.isFile()) return this.#files.delete(name);
    const stamp = `${found.mtimeMs}:${found.size}:${found.ino}`;
    if (before?.stamp === stamp) return false;
    const loaded: LoadedFile = { stamp, modifiedAtMs: found.mtimeMs };
    this.#files.set(name, loaded);
    try {
      if (found.size > maxRangesFileBytes) throw tooLarge(name);
      const bytes = await readFile(path);
      if (bytes.length > maxRangesFileBytes) throw tooLarge(name);
      loaded.good = parseProviderRanges(bytes.toString("utf8"), name);
      this.#log.info(`Loaded ${loaded.good.count} ranges of ${loaded.good.provider} from "${name}"`);
      return true;
    } catch (error) {
      loaded.problem = CoralError.from(error).message;
      if (before?.good) loaded.good = before.good;
      this.#log.warn(before?.good ? `${loaded.problem}; the version before stays in use` : loaded.problem);
      return false;
    }
  }

  #rebuild(): void {
    let total = 0;
    const used: ProviderRanges[] = [];
    for (const [, file] of [...this.#files].sort(([left], [right]) => (left < right ? -1 : 1))) {
      if (!file.good) continue;
      total += file.good.count;
      file.isLeftOut = total > maxTotalPrefixes;
      if (!file.isLeftOut) used.push(file.good);
    }
    this.#table = new PrefixTable(used.map(({ ranges }) => ranges));
  }
}

function problemOf(name: string, { problem, isLeftOut = false }: LoadedFile): string | undefined {
  if (problem !== undefined || !isLeftOut) return problem;
  return `Cannot use ranges file "${name}": all files together hold more than ${maxTotalPrefixes} ranges`;
}

function tooLarge(name: string): CoralError {
  return new CoralError({ code: "exhausted", message: `Cannot read ranges file "${name}": it is larger than 64 MiB` });
}
