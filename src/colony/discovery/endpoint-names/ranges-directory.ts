/** The operator's address ranges in `<colony directory>/ranges`, reloaded when a file changes. */

import { readdir, readFile, stat } from "node:fs/promises";
import { join } from "node:path";
import type { Clock } from "../../../base/clock.ts";
import { CoralError } from "../../../base/errors.ts";
import type { Logger } from "../../../base/log.ts";
import { maxRangesFileBytes, type ProviderRanges, parseProviderRanges, type RangeFormat } from "../../../tools/index.ts";
import { PrefixTable } from "./prefix-table.ts";

/** How often files are checked. Polling, because network and container file systems do not send notifications. */
const checkIntervalMs = 30_000;
const maxFiles = 64;
const maxTotalPrefixes = 1_000_000;
/** Editor backups, unfinished downloads and notes. */
const ignored = /^\.|~$|\.(?:tmp|part|bak|md)$/;

export interface RangesDirectoryOptions {
  directory: string;
  clock: Clock;
  log: Logger;
}

/** The state of one file at the last check. */
export interface RangesFile {
  file: string;
  /** From the last valid version; absent without one. */
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
  isExcluded?: boolean;
}

/** Has no descriptors and no timers; the owner calls `refreshIfDue` regularly. */
export class RangesDirectory {
  readonly #directory: string;
  readonly #clock: Clock;
  readonly #log: Logger;
  readonly #files = new Map<string, LoadedFile>();
  #table = new PrefixTable([]);
  #checkedMs = Number.NEGATIVE_INFINITY;
  #refreshing: Promise<boolean> | undefined;
  #problem: string | undefined;

  constructor({ directory, clock, log }: RangesDirectoryOptions) {
    this.#directory = directory;
    this.#clock = clock;
    this.#log = log;
  }

  get table(): PrefixTable {
    return this.#table;
  }

  /** Sorted by name. */
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

  /** Why ranges are not in use, as messages. */
  get problems(): string[] {
    const own = this.#problem === undefined ? [] : [this.#problem];
    return [...own, ...this.files.flatMap(({ problem }) => problem ?? [])];
  }

  /** Checks for changes unless that was done recently; true when the table changed. Never rejects: failures are in `problems`. */
  refreshIfDue(): Promise<boolean> {
    if (this.#refreshing) return this.#refreshing;
    if (this.#clock.monotonicMs() - this.#checkedMs < checkIntervalMs) return Promise.resolve(false);
    return this.refresh();
  }

  /** Like `refreshIfDue`, but unconditionally. */
  refresh(): Promise<boolean> {
    this.#refreshing ??= this.#refresh().finally(() => {
      this.#refreshing = undefined;
      this.#checkedMs = this.#clock.monotonicMs();
    });
    return this.#refreshing;
  }

  async #refresh(): Promise<boolean> {
    const names = await this.#names();
    if (!names) return false;
    let isChanged = false;
    for (const name of this.#files.keys()) {
      if (names.includes(name)) continue;
      this.#files.delete(name);
      isChanged = true;
      this.#log.info(`Ranges file "${name}" was removed; dropping its ranges`);
    }
    for (const name of names) if (await this.#refreshFile(name)) isChanged = true;
    if (isChanged) this.#rebuild();
    return isChanged;
  }

  /** Undefined when the directory cannot be read: nothing changes then. */
  async #names(): Promise<string[] | undefined> {
    try {
      const names = (await readdir(this.#directory)).filter((name) => !ignored.test(name)).sort();
      this.#setProblem(
        names.length > maxFiles
          ? `Cannot use all files of "${this.#directory}": it has more than ${maxFiles}; merge or remove some`
          : undefined,
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
    // The file may be gone since the directory was read.
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
      this.#log.warn(before?.good ? `${loaded.problem}; keeping the previous version` : loaded.problem);
      return false;
    }
  }

  #rebuild(): void {
    let total = 0;
    const used: ProviderRanges[] = [];
    for (const [, file] of [...this.#files].sort(([left], [right]) => (left < right ? -1 : 1))) {
      if (!file.good) continue;
      total += file.good.count;
      file.isExcluded = total > maxTotalPrefixes;
      if (!file.isExcluded) used.push(file.good);
    }
    this.#table = new PrefixTable(used.map(({ ranges }) => ranges));
  }
}

function problemOf(name: string, { problem, isExcluded = false }: LoadedFile): string | undefined {
  if (problem !== undefined || !isExcluded) return problem;
  return `Cannot use ranges file "${name}": all files together have more than ${maxTotalPrefixes} ranges; remove some`;
}

function tooLarge(name: string): CoralError {
  return new CoralError({ code: "exhausted", message: `Cannot read ranges file "${name}": it is larger than 64 MiB` });
}
