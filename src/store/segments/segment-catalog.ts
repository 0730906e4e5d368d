/** The manifest in memory, and the selection of files for a query. One per store; updated after committed transactions. */

import { CoralError } from "../../base/errors.ts";
import type { Database, Transaction } from "../engine/database.ts";
import type { SegmentSignal } from "../signals/define-segment-signal.ts";
import type { CrashPoints } from "./crash-points.ts";
import { mightContain } from "./lookup-filter.ts";
import { schemaOf } from "./parquet/encode-parquet.ts";
import { type DelayedUnlinks, segmentPath } from "./segment-files.ts";
import { loadFilters, loadManifest, type SegmentEntry } from "./segment-manifest.ts";
import type { SegmentRange, SegmentSource } from "./segment-source.ts";

/** Size limit of the cache of recently used filters. */
const filterCacheBytes = 16 * 1024 * 1024;

export interface FileChoice {
  entries: SegmentEntry[];
  files: string[];
  /** True if the files have several schema versions, or one other than the declared one. */
  isMixed: boolean;
}

export class SegmentCatalog {
  readonly #database: Database;
  readonly #root: string;
  /** By signal, in order of number within an epoch. */
  readonly #entries = new Map<string, SegmentEntry[]>();
  readonly #filters = new Map<SegmentEntry, Uint8Array>();
  #filterBytes = 0;

  private constructor(database: Database, root: string) {
    this.#database = database;
    this.#root = root;
  }

  static async load(database: Database, root: string): Promise<SegmentCatalog> {
    const catalog = new SegmentCatalog(database, root);
    catalog.add(await loadManifest(database));
    return catalog;
  }

  /** Caches the filters of new segments: most queries are about recent data. */
  addWithFilters(added: readonly { entry: SegmentEntry; filter: Uint8Array | undefined }[]): void {
    this.add(added.map(({ entry }) => entry));
    // Copies the bytes, which may be a view into a whole message.
    for (const { entry, filter } of added) if (filter) this.#keepFilter(entry, filter.slice());
  }

  add(entries: readonly SegmentEntry[]): void {
    for (const entry of entries) {
      const list = this.#entries.get(entry.signal);
      if (list) list.push(entry);
      else this.#entries.set(entry.signal, [entry]);
    }
  }

  remove(gone: readonly SegmentEntry[]): void {
    const set = new Set(gone);
    for (const signal of new Set(gone.map((entry) => entry.signal))) {
      this.#entries.set(
        signal,
        this.of(signal).filter((entry) => !set.has(entry)),
      );
    }
    for (const entry of gone) this.#forgetFilter(entry);
  }

  /** `entry` takes the position of the first of `gone`, so that the order is kept. */
  replace(gone: readonly SegmentEntry[], entry: SegmentEntry): void {
    const list = this.#entries.get(entry.signal) ?? [];
    const at = list.findIndex((one) => one === gone[0]);
    list.splice(Math.max(0, at), 0, entry);
    this.#entries.set(entry.signal, list);
    this.remove(gone);
  }

  /** Includes lost segments. */
  of(signal: string): readonly SegmentEntry[] {
    return this.#entries.get(signal) ?? [];
  }

  all(): SegmentEntry[] {
    return [...this.#entries.values()].flat();
  }

  /** Totals of the stored segments of a signal. */
  sizeOf(signal: string): { files: number; rows: number; sizeBytes: number } {
    const size = { files: 0, rows: 0, sizeBytes: 0 };
    for (const { state, rows, sizeBytes } of this.of(signal)) {
      if (state !== "stored") continue;
      size.files++;
      size.rows += rows;
      size.sizeBytes += sizeBytes;
    }
    return size;
  }

  /** Total size over all signals. */
  storedBytes(): number {
    return [...this.#entries.keys()].reduce((total, signal) => total + this.sizeOf(signal).sizeBytes, 0);
  }

  fileOf(entry: SegmentEntry): string {
    return segmentPath(this.#root, entry);
  }

  async choose(signal: SegmentSignal, range: SegmentRange = {}): Promise<FileChoice> {
    const { fromUs = Number.NEGATIVE_INFINITY, untilUs = Number.POSITIVE_INFINITY, service, agentId, lookup } = range;
    const wanted = typeof service === "string" ? [service] : service;
    let entries = this.of(signal.name).filter(
      (entry) =>
        entry.state === "stored" &&
        entry.rows > 0 &&
        entry.maxTimeUs >= fromUs &&
        entry.minTimeUs <= untilUs &&
        (agentId === undefined || entry.agentId === agentId) &&
        (wanted === undefined || entry.services === null || entry.services.some((name) => wanted.includes(name))),
    );
    if (lookup !== undefined && signal.lookup !== undefined)
      entries = await this.#holding(entries, typeof lookup === "string" ? [lookup] : lookup);
    return {
      entries,
      files: entries.map((entry) => this.fileOf(entry)),
      isMixed: isOfOtherVersion(signal, entries),
    };
  }

  /** `emptyFile` is read when no file matches, and supplies columns that older files lack. */
  async source(signal: SegmentSignal, range: SegmentRange = {}, emptyFile: string): Promise<SegmentSource> {
    const { entries } = await this.choose(signal, range);
    const { fromUs = Number.NEGATIVE_INFINITY, untilUs = Number.POSITIVE_INFINITY, isExact = false } = range;
    const isCut = (entry: SegmentEntry): boolean => isExact && (entry.minTimeUs < fromUs || entry.maxTimeUs > untilUs);
    const cut = entries.filter(isCut);
    const whole = entries.filter((entry) => !isCut(entry));
    const parts = whole.length > 0 || cut.length === 0 ? [this.#read(signal, whole, emptyFile)] : [];
    if (cut.length > 0) parts.push(`${this.#read(signal, cut, emptyFile)} WHERE ${timeSql(fromUs, untilUs)}`);
    return {
      sql: `(${parts.join(" UNION ALL ")})`,
      files: entries.length,
      rows: entries.reduce((total, { rows }) => total + rows, 0),
    };
  }

  #read(signal: SegmentSignal, entries: readonly SegmentEntry[], emptyFile: string): string {
    const isMixed = isOfOtherVersion(signal, entries);
    const files = entries.map((entry) => this.fileOf(entry));
    const listed = isMixed || files.length === 0 ? [emptyFile, ...files] : files;
    const options = `filename = true${isMixed ? ", union_by_name = true" : ""}`;
    const columns = schemaOf(signal).map(({ name }) => `"${name}"`);
    return `SELECT ${agentColumns}, ${columns.join(", ")} FROM read_parquet([${listed.map(quoted).join(", ")}], ${options})`;
  }

  async #holding(entries: readonly SegmentEntry[], lookups: readonly string[]): Promise<SegmentEntry[]> {
    const ids = lookups.map((lookup) => {
      if (/^[0-9a-f]{32}$/i.test(lookup)) return Buffer.from(lookup, "hex");
      throw new CoralError({ code: "usage", message: `Cannot look up "${lookup}": not an id of 32 hex digits` });
    });
    const unknown = entries.filter((entry) => !this.#filters.has(entry));
    const loaded = await loadFilters(this.#database, unknown);
    const held = entries.filter((entry) => {
      const filter = this.#filters.get(entry) ?? loaded.get(entry);
      return filter === undefined || ids.some((id) => mightContain(filter, id));
    });
    for (const [entry, filter] of loaded) this.#keepFilter(entry, filter);
    return held;
  }

  /** Evicts the oldest filters beyond the limit. */
  #keepFilter(entry: SegmentEntry, filter: Uint8Array): void {
    this.#filters.set(entry, filter);
    this.#filterBytes += filter.length;
    for (const oldest of this.#filters.keys()) {
      if (this.#filterBytes <= filterCacheBytes) return;
      this.#forgetFilter(oldest);
    }
  }

  #forgetFilter(entry: SegmentEntry): void {
    this.#filterBytes -= this.#filters.get(entry)?.length ?? 0;
    this.#filters.delete(entry);
  }
}

function isOfOtherVersion(signal: SegmentSignal, entries: readonly SegmentEntry[]): boolean {
  return entries.some(({ schemaVersion }) => schemaVersion !== signal.version);
}

/** At least one of the bounds must be finite. */
function timeSql(fromUs: number, untilUs: number): string {
  const conditions = [
    ...(Number.isFinite(fromUs) ? [`"time" >= make_timestamp(${Math.ceil(fromUs)})`] : []),
    ...(Number.isFinite(untilUs) ? [`"time" <= make_timestamp(${Math.floor(untilUs)})`] : []),
  ];
  return conditions.join(" AND ");
}

/** Agent and epoch from the directory name. Both are empty at an agent, whose directories are named after signals. */
export const agentColumns = `CASE WHEN contains(split_part("filename", '/', -2), '~') THEN split_part(split_part("filename", '/', -2), '~', 1) ELSE '' END AS agent_id,
  split_part(split_part("filename", '/', -2), '~', 2) AS epoch`;

export function quoted(text: string): string {
  return `'${text.replaceAll("'", "''")}'`;
}

/** State that must change together when segments are removed or replaced: the manifest, its copy in memory, and the files. */
export interface ChangingSegments {
  database: Database;
  /** Runs in the transaction that removes expired segments of a signal; records the oldest time still stored. Absent: not recorded. */
  noteKept?: (transaction: Transaction, signal: string, sinceUs: number) => Promise<void>;
  catalog: SegmentCatalog;
  unlinks: DelayedUnlinks;
  crashPoints: CrashPoints | undefined;
}
